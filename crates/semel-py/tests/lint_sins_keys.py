"""Unfit keys, hidden in all ways that code has: each marked line must be found, and no other."""

from __future__ import annotations

KEY_SINS = {
    "a clock by another name": """
from time import time as tick

def take(event_id: str) -> dict:
    return create_ticket(f"{event_id}@{tick():.0f}")  # bad: SML001
""",
    "today": """
def take(branch: str) -> dict:
    return create_ticket(branch + date.today().isoformat())  # bad: SML001
""",
    "a clock in a class attribute": """
class Settings:
    began = datetime.now()

def take(event_id: str) -> dict:
    return create_ticket(f"{event_id}/{Settings.began}")  # bad: SML001
""",
    "a clock in a constant of the module": """
BATCH = time.strftime("%Y%m%d%H%M%S")

def take(event_id: str) -> dict:
    return create_ticket(f"{event_id}/{BATCH}")  # bad: SML001
""",
    "a clock in a default": """
def name(event_id: str, stamp: float = time.time()) -> str:
    return f"{event_id}/{stamp}"

def take(event_id: str) -> dict:
    return create_ticket(name(event_id))  # bad: SML001
""",
    "a clock in a dictionary": """
def take(event_id: str) -> dict:
    wish = {"id": event_id}
    wish["name"] = f"{event_id}-{time.time_ns()}"
    return create_ticket(wish["name"])  # bad: SML001
""",
    "a clock in a list": """
def take(event_id: str) -> dict:
    parts = [event_id]
    parts.append(str(time.time()))
    return create_ticket("-".join(parts))  # bad: SML001
""",
    "a digest of a clock": """
def take(event_id: str) -> dict:
    name = hashlib.sha256(f"{event_id}{datetime.utcnow()}".encode()).hexdigest()
    return create_ticket(name)  # bad: SML001
""",
    "a clock in one branch": """
def take(event_id: str, is_vip: bool) -> dict:
    name = event_id
    if is_vip:
        name = f"vip-{time.time()}"
    return create_ticket(name)  # bad: SML001
""",
    "a clock in a conditional expression": """
def take(event_id: str | None) -> dict:
    return create_ticket(event_id if event_id else str(time.time()))  # bad: SML001
""",
    "a clock by a walrus": """
def take(event_id: str) -> dict:
    if (stamp := time.time()) > 0:
        return create_ticket(f"{event_id}-{stamp}")  # bad: SML001
    return {}
""",
    "a clock in a comprehension": """
def take(events: list[str]) -> list[dict]:
    names = [f"{one}-{time.time()}" for one in events]
    return [create_ticket(name) for name in names]  # bad: SML001
""",
    "a clock by star arguments": """
def take(event_id: str) -> dict:
    words = (f"{event_id}-{time.time()}", "fire")
    return create_ticket(*words)  # bad: SML001
""",
    "a clock by named star arguments": """
def take(event_id: str) -> dict:
    words = {"request_id": f"{event_id}-{time.time()}", "subject": "fire"}
    return create_ticket(**words)  # bad: SML001
""",
    "a clock through a wrapper with star arguments": """
def opened(*args, **kwargs) -> dict:
    return create_ticket(*args, **kwargs)  # bad: SML001

def take(event_id: str) -> dict:
    return opened(f"{event_id}-{time.time()}", subject="fire")
""",
    "a clock of a dataclass": """
@dataclasses.dataclass
class Wish:
    event_id: str
    name: str = dataclasses.field(default_factory=lambda: str(time.time()))

def take(event_id: str) -> dict:
    wish = Wish(event_id)
    return create_ticket(wish.name)  # bad: SML001
""",
    "a clock of an object": """
class Namer:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.began = time.time()

    def name(self, event_id: str) -> str:
        return f"{self.prefix}-{event_id}-{self.began}"

def take(event_id: str) -> dict:
    return create_ticket(Namer("t").name(event_id))  # bad: SML001
""",
    "a clock of a property": """
class Wish:
    def __init__(self, event_id: str) -> None:
        self.event_id = event_id

    @property
    def name(self) -> str:
        return f"{self.event_id}-{time.time()}"

def take(event_id: str) -> dict:
    return create_ticket(Wish(event_id).name)  # bad: SML001
""",
    "a clock in a closure": """
def take(event_id: str) -> dict:
    stamp = time.time()

    def name() -> str:
        return f"{event_id}-{stamp}"

    return create_ticket(name())  # bad: SML001
""",
    "a clock of a generator": """
def names(event_id: str):
    while True:
        yield f"{event_id}-{time.time()}"

def take(event_id: str) -> dict:
    return create_ticket(next(names(event_id)))  # bad: SML001
""",
    "the clock of the run": """
@workflow
async def w(ctx: WorkflowContext, event_id: str):
    await ctx.step(create_ticket, f"{event_id}/{ctx.now():%H%M}")  # bad: SML001
""",
    "a clock through a recorded step": """
@function
def stamp(event_id: str) -> str:
    return f"{event_id}-{datetime.now(timezone.utc).timestamp()}"

@workflow
async def w(ctx: WorkflowContext, event_id: str):
    name = await ctx.step(stamp, event_id)
    await ctx.step(create_ticket, name)  # bad: SML001
""",
    "a clock through gathered steps": """
@function
def stamp() -> str:
    return str(time.time())

@workflow
async def w(ctx: WorkflowContext, event_id: str):
    said, name = await ctx.gather(ctx.step(clean, event_id), ctx.step(stamp))
    await ctx.step(create_ticket, name)  # bad: SML001
""",
    "chance in a key by a function of parameters": """
def salted(order_id: str) -> list[str]:
    return [order_id, f"{random.randint(0, 9)}"]

@effect("salted", key=salted, contract=native_key("24h"))  # bad: SML002
def charge(order_id: str) -> dict:
    return crm.post("/charges", json={"id": order_id}).json()
""",
    "chance in the text of a key": """
SALT = os.urandom(4).hex()

@effect("salted", key="{order_id}-" + SALT, contract=native_key("24h"))  # bad: SML002
def charge(order_id: str) -> dict:
    return crm.post("/charges", json={"id": order_id}).json()
""",
    "chance in the downstream key": """
@effect(
    "salted",
    key="{order_id}",
    downstream_key=lambda order_id: f"{order_id}-{uuid.uuid4()}",  # bad: SML002
    contract=native_key("24h"),
)
def charge(order_id: str) -> dict:
    return crm.post("/charges", json={"id": order_id}).json()
""",
    "chance where an id is missing": """
def take(delivery: dict) -> dict:
    return create_ticket(delivery.get("id", str(uuid.uuid4())))  # bad: SML002
""",
    "chance in a tool's bound case": """
@tool
@effect("case", key="{case_id}", fingerprint=["case_id"], contract=native_key("24h"))
def open_case(case_id: str, subject: str) -> dict:
    return crm.post("/cases", json={"id": case_id}).json()

def handle() -> object:
    return tools([open_case], case_id=uuid.uuid4().hex)  # bad: SML002
""",
    "chance in the id of a signal": """
def approve(key: str) -> None:
    handle = app.start("triage", key=key)
    handle.signal("approved", {}, id=str(uuid.uuid4()))  # bad: SML002
""",
    "chance in the key of a child": """
@workflow
async def child(ctx: WorkflowContext, order_id: str): ...

@workflow
async def w(ctx: WorkflowContext, order_id: str):
    await ctx.child(child, order_id, key=f"{order_id}-{random.random()}")  # bad: SML002
""",
    "chance in the key that is passed to Stripe": """
import stripe

@effect("charge", key="{order_id}", contract=at_most_once)
def charge(order_id: str) -> dict:
    token = str(uuid.uuid4())
    paid = stripe.PaymentIntent.create(amount=1, idempotency_key=token)  # bad: SML002
    return {"id": paid.id}
""",
    "the attempt of a task queue": """
def task(self, order_id: str) -> dict:
    return create_ticket(f"{order_id}-{self.request.retries}")  # bad: SML003
""",
    "the attempt of the intent": """
@effect("inner", key="{order_id}", contract=native_key("24h"))
def inner(order_id: str) -> dict:
    return create_ticket(f"{order_id}-{semel.intent().attempt}")  # bad: SML003
""",
    "the attempt as a parameter": """
@effect("retried", key=["{order_id}", "{attempt}"], contract=native_key("24h"))  # bad: SML003
def retried(order_id: str, attempt: int) -> dict:
    return crm.post("/charges", json={"id": order_id}).json()
""",
    "the address of an object": """
class Wish:
    pass

def take(event_id: str) -> dict:
    wish = Wish()
    return create_ticket(f"{event_id}-{id(wish)}")  # bad: SML004
""",
    "the address of an object, written out": """
class Wish:
    def __init__(self, event_id: str) -> None:
        self.event_id = event_id

def take(event_id: str) -> dict:
    return create_ticket(str(Wish(event_id)))  # bad: SML004
""",
    "a hash that is seeded by the process": """
def take(event_id: str) -> dict:
    return create_ticket(str(hash(event_id)))  # bad: SML004
""",
    "the thread and the host": """
WHO = f"{os.environ['HOSTNAME']}"

def take(event_id: str) -> dict:
    return create_ticket(f"{event_id}-{WHO}-{threading.get_ident()}")  # bad: SML004
""",
    "a model that is asked directly": """
import anthropic

client = anthropic.Anthropic()

def take(text: str) -> dict:
    said = client.messages.create(model="m", max_tokens=9, messages=[{"content": text}])
    return create_ticket(said.content[0].text)  # bad: SML005
""",
    "a model that decides between two keys": """
@workflow
async def w(ctx: WorkflowContext, inbound: Inbound):
    said = await ctx.step(classify, inbound.text)
    kind = "urgent" if said.text == "fire" else "normal"
    await ctx.step(create_ticket, f"{inbound.request_id}/{kind}")  # bad: SML005
""",
    "a counter by global": """
count = 0

def number() -> int:
    global count
    count += 1
    return count

def take() -> dict:
    return create_ticket(f"ticket-{number()}")  # bad: SML006
""",
    "a counter of a class": """
class Ticket:
    made = 0

def take() -> dict:
    Ticket.made += 1
    return create_ticket(f"ticket-{Ticket.made}")  # bad: SML006
""",
    "the order of a set of a list": """
def take(tags: list[str]) -> dict:
    return create_ticket(str(list(set(tags))))  # bad: SML007
""",
    "the order of a folder": """
def take(folder: str) -> dict:
    return create_ticket(os.listdir(folder)[0] + folder)  # bad: SML007
""",
    "the next version after a yes": """
@workflow
async def w(ctx: WorkflowContext, order_id: str, version: int):
    await ctx.approve("refund", {"order": order_id}, expires="1d")
    await ctx.step(create_ticket, f"{order_id}/v{version + 1}")  # bad: SML008
""",
    "a user alone, in a tuple": """
@effect("pay", key=["pay", "{user.account_id}"], contract=native_key("24h"))  # bad: SML009
def pay(user: dict, invoice_id: str) -> dict:
    return crm.post("/payments", json={"id": invoice_id}).json()
""",
    "a payload, written out": """
@effect("pay", key=lambda wish: str(wish), contract=native_key("24h"))  # bad: SML010
def pay(wish: dict) -> dict:
    return crm.post("/payments", json=wish).json()
""",
    "a payload by pydantic": """
@effect("pay", key=lambda wish: wish.model_dump_json(), contract=native_key("24h"))  # bad: SML010
def pay(wish: Inbound) -> dict:
    return crm.post("/payments", json={}).json()
""",
}
