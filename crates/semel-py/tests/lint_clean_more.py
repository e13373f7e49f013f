"""More code that looks suspicious and is not."""

from __future__ import annotations

MORE_CLEAN = {
    "commands that are awaited later": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    first = ctx.step(create_ticket, order_id)
    task = asyncio.create_task(ctx.sleep("1h"))
    await asyncio.wait([task], timeout=None)
    async with ctx.entity(order_id):
        return await first
""",
    "a cache that is filled where it misses": """
import redis
cache = redis.Redis()
@function
def rate(currency: str) -> str:
    found = cache.get(currency)
    if found is None:
        found = plain.get(f"/rates/{currency}").text
        cache.set(currency, found)
    return found
""",
    "a health, and an alert at another host": """
def watch(order_id: str) -> None:
    health = httpx.get("https://crm.example/health").json()
    if not health["ok"]:
        httpx.post("https://pager.example/health", json={"id": order_id})
""",
    "one thing is looked at, and another one made": """
def watch(order_id: str) -> None:
    stock = plain.get(f"/api/v1/stocks/{order_id}").json()
    if not stock["count"]:
        plain.post("/api/v1/alerts", json={"id": order_id})
""",
    "a person's note beside the key": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    d = await ctx.wait_for_user("decision", "ok?", choices=["a"], timeout="1d")
    await ctx.step(create_ticket, order_id, d.note)
""",
    "a lock around it": """
lock = threading.Lock()
def go(order_id: str):
    with lock:
        return create_ticket(order_id)
""",
    "a setting that is the same everywhere": """
def go(order_id):
    return create_ticket(f"{os.environ['REGION']}-{order_id}")
""",
    "not yet written, without a receipt": """
@effect("x", key="{a_id}", contract=harmless)
def x(a_id: str) -> None: ...
""",
    "the time beside the receipt": """
@effect("x", key="{a_id}", contract=harmless)
def x(a_id: str) -> dict:
    r = plain.post("/x", json={})
    if r.status_code == 409:
        raise semel.Refused("no")
    return {"id": r.json()["id"], "at": time.time()}
""",
    "a client of one's own around a safe one": """
class Api:
    def __init__(self): self.c = semel.requests.Session()
    def post(self, path, body): return self.c.post(path, json=body).json()
api = Api()
@effect("x", key="{order_id}", contract=native_key("24h"))
def x(order_id: str) -> dict:
    return api.post("/x", {"id": order_id})
""",
    "reads in a loop": """
@function
def pages(order_id: str) -> list:
    out, url = [], "/x"
    while url:
        r = plain.get(url).json()
        out += r["items"]; url = r.get("next")
    return out
""",
    "a method of the input as the key": """
class Wish(BaseModel):
    order_id: str
    def key(self): return self.order_id
@effect("x", key=lambda wish: wish.key(), contract=native_key("24h"))
def x(wish: Wish) -> dict:
    return crm.post("/x", json=wish.model_dump()).json()
""",
    "the intent handed on as a whole": """
from mylib import send
@effect("x", key="{order_id}", contract=native_key("24h"))
def x(order_id: str) -> dict:
    return send.create(order_id, semel.intent())
""",
    "a receipt, or nothing": """
@effect("x", key="{order_id}", contract=native_key("24h"))
def x(order_id: str) -> dict | None:
    r = crm.post("/x", json={})
    return r.json() if r.status_code == 200 else None
""",
    "a plain write that no run reaches": """
def notify(order_id):
    requests.post("http://x", json={"id": order_id})
""",
    "a tool as a step": """
@workflow
async def w(ctx: WorkflowContext, case_id: str):
    box = tools([t], case_id=case_id)
    await box.step(ctx, "t", {})
@tool
@effect("t", key="{case_id}", fingerprint=["case_id"], contract=native_key("24h"))
def t(case_id: str) -> dict:
    return crm.post("/x", json={}).json()
""",
    "sorted by time, named by id": """
def go(rows):
    df = sorted(rows, key=lambda r: r["at"])
    for r in df:
        create_ticket(r["id"])
""",
    "an attempt that is only looked at": """
def consume(queue):
    for message in queue:
        create_ticket(message["body"]["id"])
        if message["attempts"] > 3:
            print("late")
""",
    "a recipient beside a campaign": """
@effect("mail", key=["{campaign_id}", "{email}"], contract=native_key("24h"))
def mail(campaign_id: str, email: str) -> dict:
    return crm.post("/mail", json={}).json()
""",
    "a write about something else before the effect": """
def consume(queue_url: str, event_id: str) -> dict:
    requests.post(queue_url, json={"max": 1})
    return create_ticket(event_id)
""",
    "a member of a set of objects": """
def take(wishes: list[Inbound]) -> dict:
    chosen = {max(wishes, key=lambda one: one.at)}
    return create_ticket(chosen.pop().request_id)
""",
}
