"""More unfit keys, and all sins together."""

from __future__ import annotations

from lint_sins_code import CODE_SINS
from lint_sins_keys import KEY_SINS

MORE_KEY_SINS = {
    "a retry of a task queue, behind its decorator": """
from celery import shared_task
@shared_task(bind=True, max_retries=5)
def charge_task(self, order_id):
    create_ticket(f"{order_id}:{self.request.retries}")  # bad: SML003
""",
    "the statistics of a retrying decorator": """
from tenacity import retry
@retry
def go(order_id):
    return create_ticket(f"{order_id}-{go.retry.statistics['attempt_number']}")  # bad: SML003
""",
    "a start in async code": """
async def hook(request):
    async with AsyncSemel("sqlite:x") as a:
        await a.start(w, request.id, key=str(uuid.uuid4()))  # bad: SML002
@workflow
async def w(ctx, x): ...
""",
    "names in a dictionary": """
def take(ids: list[str]):
    names = {i: f"{i}-{uuid.uuid4()}" for i in ids}
    for i in ids:
        create_ticket(names[i])  # bad: SML002
""",
    "names that are mapped over": """
@workflow
async def w(ctx: WorkflowContext, ids: list[str]):
    await ctx.map(create_ticket, [f"{i}-{random.random()}" for i in ids])  # bad: SML002
""",
    "a name by its keyword": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    await ctx.step(create_ticket, subject="x", request_id=uuid.uuid4().hex)  # bad: SML002
""",
    "a name in a function inside a body": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    async def one(n):
        return await ctx.step(create_ticket, f"{order_id}-{n}-{time.time()}")  # bad: SML001
    await ctx.gather(*[one(n) for n in range(3)])
""",
    "a name by format": """
def take(order_id):
    return create_ticket("{}-{}".format(order_id, datetime.now()))  # bad: SML001
""",
    "a name by percent": """
def take(order_id):
    return create_ticket("%s-%s" % (order_id, time.time()))  # bad: SML001
""",
    "a name that is cached in one process": """
@functools.lru_cache
def token(): return uuid.uuid4().hex
def take(order_id):
    return create_ticket(token())  # bad: SML002
""",
    "a name that an object keeps": """
class Svc:
    def __init__(self):
        self.session = uuid.uuid4().hex
    def go(self, order_id):
        return create_ticket(f"{order_id}-{self.session}")  # bad: SML002
""",
    "a name for want of another": """
def go(event):
    try:
        name = event["id"]
    except KeyError:
        name = str(uuid.uuid4())
    return create_ticket(name)  # bad: SML002
""",
}

SINS = {**KEY_SINS, **MORE_KEY_SINS, **CODE_SINS}
