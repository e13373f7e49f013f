"""Code that looks suspicious and is not: the linter must say nothing of any of it."""

from __future__ import annotations

from lint_clean_more import MORE_CLEAN

CLEAN = {
    **MORE_CLEAN,
    "a uuid of business ids": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"order:{order_id}")
    await ctx.step(create_ticket, str(name))
""",
    "a digest of business ids": """
@workflow
async def w(ctx: WorkflowContext, order_id: str, line: int):
    name = hashlib.sha256(f"{order_id}/{line}".encode()).hexdigest()[:16]
    await ctx.step(create_ticket, name)
""",
    "a digest of sorted members": """
def payload_key(payload: dict) -> str:
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()

@effect("thing", key=payload_key, contract=native_key("24h"))
def thing(payload: dict) -> dict:
    return crm.post("/things", json=payload).json()
""",
    "a digest of normalised text": """
def text_key(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).casefold().encode()).hexdigest()

@effect("thing", key=text_key, contract=native_key("24h"))
def thing(text: str) -> dict:
    return crm.post("/things", json={"text": text}).json()
""",
    "the time beside the key": """
@effect("mail", key="{request_id}", fingerprint=["request_id"], contract=native_key("24h"))
def send(request_id: str, at: str) -> dict:
    return crm.post("/mails", json={"id": request_id, "at": at}).json()

@workflow
async def w(ctx: WorkflowContext, request_id: str):
    await ctx.step(send, request_id, ctx.now().isoformat())
""",
    "one clean field of an object with an unfit one": """
@workflow
async def w(ctx: WorkflowContext, request_id: str):
    inbound = Inbound(request_id=request_id, at=ctx.now().timestamp())
    await ctx.step(create_ticket, inbound.request_id)
""",
    "one clean member of a dictionary": """
def take(delivery: dict) -> dict:
    wish = {"id": delivery["event_id"], "seen": time.time(), "trace": str(uuid.uuid4())}
    return create_ticket(wish["id"])
""",
    "the first of a pair": """
def pair(event_id: str):
    return event_id, uuid.uuid4()

def take(event_id: str) -> dict:
    name, trace = pair(event_id)
    return create_ticket(name)
""",
    "overwritten before it is used": """
def take(event_id: str) -> dict:
    name = str(uuid.uuid4())
    print(name)
    name = event_id
    return create_ticket(name)
""",
    "elapsed time in a log": """
def take(event_id: str) -> dict:
    began = time.monotonic()
    ticket = create_ticket(event_id)
    print(event_id, time.monotonic() - began)
    return ticket
""",
    "a trace id in a header": """
@effect("traced", key="{order_id}", contract=native_key("24h"))
def traced(order_id: str) -> dict:
    return crm.post("/things", json={}, headers={"X-Trace": str(uuid.uuid4())}).json()
""",
    "jitter in a step": """
@function
def fetch(url: str) -> str:
    time.sleep(random.random())
    return httpx.get(url).text
""",
    "a model's words outside of key and fingerprint": """
@workflow
async def w(ctx: WorkflowContext, inbound: Inbound):
    said = await ctx.step(classify, inbound.text)
    await ctx.step(create_ticket, inbound.request_id, said.text)
""",
    "the receipt of an effect as a key": """
@workflow
async def w(ctx: WorkflowContext, inbound: Inbound):
    said = await ctx.step(classify, inbound.text)
    ticket = await ctx.step(create_ticket, inbound.request_id, said.text)
    await ctx.step(create_ticket, ticket["id"])
""",
    "the tick of a schedule": """
@workflow
async def w(ctx: WorkflowContext, branch: str):
    _, tick = ctx.key.split(",")
    await ctx.step(create_ticket, tick)
""",
    "a date that came with the event": """
@effect("report", key=["{branch}", "{day}"], contract=native_key("24h"))
def report(branch: str, day: date) -> dict:
    return crm.post("/reports", json={"branch": branch, "day": str(day)}).json()
""",
    "a set that is sorted": """
def take(tags: list[str], event_id: str) -> dict:
    return create_ticket(event_id + "+".join(sorted(set(tags))))
""",
    "one element of a set at a time": """
def take(event_ids: set[str]) -> list[dict]:
    return [create_ticket(one) for one in event_ids]
""",
    "a loop over items, numbered": """
def take(order_id: str, lines: list[str]) -> None:
    for place, line in enumerate(lines):
        create_ticket(f"{order_id}/{place}")
""",
    "one write, in either branch": """
@effect("thing", key="{order_id}", contract=native_key("24h"))
def thing(order_id: str, is_new: bool) -> dict:
    if is_new:
        answer = crm.post("/things", json={"id": order_id})
    else:
        answer = crm.put(f"/things/{order_id}", json={})
    return answer.json()
""",
    "one write, after an early return": """
@effect("thing", key="{order_id}", contract=native_key("24h"))
def thing(order_id: str, is_new: bool) -> dict:
    if is_new:
        return crm.post("/things", json={"id": order_id}).json()
    return crm.put(f"/things/{order_id}", json={}).json()
""",
    "one write, by the kind of the wish": """
@effect("thing", key="{order_id}", contract=native_key("24h"))
def thing(order_id: str, kind: str) -> dict:
    match kind:
        case "new":
            return crm.post("/things", json={"id": order_id}).json()
        case _:
            return crm.delete(f"/things/{order_id}").json()
""",
    "a token first, then one write": """
@effect("thing", key="{order_id}", contract=native_key("24h"))
def thing(order_id: str) -> dict:
    token = httpx.post("http://login.example/oauth/token", data={"grant": "x"}).json()["token"]
    return crm.post("/things", json={"id": order_id}, headers={"Authorization": token}).json()
""",
    "create if absent, then read back": """
@effect("page", key="{page_id}", contract=conditional)
def publish(page_id: str) -> dict:
    answer = crm.put(f"/pages/{page_id}", json={}, headers={"If-None-Match": "*"})
    if answer.status_code == 412:
        answer = crm.get(f"/pages/{page_id}")
    return answer.json()
""",
    "a look that is a POST": """
def look(token: str) -> list[dict]:
    return plain.post("/contacts/search", json={"token": token}).json()["results"]

@effect("contact", key="{token}", contract=probe(look, first=True))
def contact(token: str) -> dict:
    return plain.post("/contacts", json={"token": token}).json()
""",
    "look, then act, under a probe": """
def look(token: str):
    return plain.get(f"/contacts/{token}").json()

@effect("contact", key="{token}", contract=probe(look))
def contact(token: str) -> dict:
    found = plain.get(f"/contacts/{token}").json()
    if found:
        return found
    return plain.post("/contacts", json={"token": token}).json()
""",
    "look in a step, then act by an effect": """
@function
def find(event_id: str) -> list[str]:
    return plain.get("/tickets", params={"id": event_id}).json()

@workflow
async def w(ctx: WorkflowContext, event_id: str):
    if not await ctx.step(find, event_id):
        await ctx.step(create_ticket, event_id)
""",
    "the key is passed on by hand": """
@effect("charge", key="{order_id}", contract=native_key("24h"))
def charge(order_id: str) -> dict:
    headers = {"Idempotency-Key": semel.intent().downstream_key}
    return plain.post("/charges", json={}, headers=headers).json()
""",
    "the key is passed on by a helper": """
def headers() -> dict[str, str]:
    return {"Idempotency-Key": semel.intent().downstream_key}

def ask(path: str, body: dict) -> dict:
    return plain.post(path, json=body, headers=headers()).json()

@effect("charge", key="{order_id}", contract=native_key("24h"))
def charge(order_id: str) -> dict:
    return ask("/charges", {"order": order_id})
""",
    "the caller brings the downstream key": """
@effect("charge", key="{order_id}", downstream_key="shop:{order_id}", contract=native_key("24h"))
def charge(order_id: str) -> dict:
    return plain.post("/c", json={}, headers={"Idempotency-Key": f"shop:{order_id}"}).json()
""",
    "a client that nobody knows, under native_key": """
from shop.clients import billing

@effect("charge", key="{order_id}", contract=native_key("24h"))
def charge(order_id: str) -> str:
    return billing.charge(order_id, idempotency_key=semel.intent().downstream_key)
""",
    "a mail, named by its intent": """
@effect("mail", key=["{request_id}", "{recipient}"], contract=at_most_once)
def mail(request_id: str, recipient: str) -> dict:
    name = f"<{semel.intent().downstream_key}@shop.example>"
    server = smtplib.SMTP("localhost")
    server.sendmail("us@shop.example", recipient, f"Message-ID: {name}")
    return {"message_id": name}
""",
    "once for each customer is what is meant": """
@effect("welcome-mail", key="{customer_id}", contract=native_key("24h"))
def welcome(customer_id: str) -> dict:
    return crm.post("/mails", json={"to": customer_id}).json()

@effect("create-account", key="{user_id}", contract=native_key("24h"))
def create_account(user_id: str) -> dict:
    return crm.post("/accounts", json={"id": user_id}).json()
""",
    "gathered steps": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    first, second = await ctx.gather(
        ctx.step(create_ticket, f"{order_id}/a"), ctx.step(create_ticket, f"{order_id}/b")
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step(create_ticket, order_id))
    await ctx.sleep("1h")
    return first, second
""",
    "the clock in a step": """
@function
def now() -> str:
    return datetime.now(timezone.utc).isoformat()

@workflow
async def w(ctx: WorkflowContext, order_id: str):
    began = await ctx.step(now)
    ctx.logger.info("began %s", began)
    await ctx.step(create_ticket, order_id)
""",
    "an approval, and the key of before": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    name = f"{order_id}/refund"
    decision = await ctx.approve("refund", {"order": order_id}, expires="1d")
    ctx.logger.info("by %s", decision.by)
    await ctx.step(create_ticket, name, decision.note)
""",
    "the payload of a signal names the thing": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    shipped = await ctx.wait_for_signal("shipped", timeout="7d")
    await ctx.step(create_ticket, shipped.parcel_id)
""",
    "a table of constants": """
LETTERS = {"welcome": "v1", "tips": "v2"}

def take(letter: str, order_id: str) -> dict:
    return create_ticket(f"{order_id}/{LETTERS[letter]}")
""",
    "a cache beside the key": """
CACHE: dict[str, dict] = {}

def take(order_id: str) -> dict:
    if order_id not in CACHE:
        CACHE[order_id] = create_ticket(order_id)
    return CACHE[order_id]
""",
    "rows of one's own": """
@transaction("book", key="{order_id}")
def book(tx, order_id: str) -> int:
    tx.execute("INSERT INTO orders (id) VALUES (?)", [order_id])
    tx.execute("UPDATE stock SET left = left - 1")
    return tx.execute("SELECT count(*) FROM orders")[0][0]
""",
    "a model behind plain HTTP": """
@model
async def ask(text: str) -> str:
    async with httpx.AsyncClient(base_url="http://model.example") as client:
        return (await client.post("/chat", json={"text": text})).json()["text"]
""",
    "a seeded dice": """
def take(order_id: str) -> dict:
    dice = random.Random(order_id)
    return create_ticket(f"{order_id}/{dice.randint(1, 6)}")
""",
    "a method with its own client": """
class Crm:
    def __init__(self, url: str) -> None:
        self.client = semel.httpx.Client(base_url=url)

    @effect("made", key="{order_id}", contract=native_key("24h"))
    def make(self, order_id: str) -> dict:
        return self.client.post("/things", json={"id": order_id}).json()
""",
    "tools with a bound case": """
@tool
@effect("case", key="{case_id}", fingerprint=["case_id"], contract=native_key("24h"))
def open_case(case_id: str, subject: str) -> dict:
    return crm.post("/cases", json={"id": case_id, "subject": subject}).json()

def handle(case_id: str):
    return tools([open_case], case_id=case_id)
""",
    "a start with a key of the event": """
def webhook(delivery: dict[str, Any]):
    inbound = Inbound(request_id=delivery["id"], at=time.time())
    return app.start("triage", inbound, key=["form", delivery["event_id"]])
""",
    "an enumeration in the key": """
import enum

class Kind(enum.Enum):
    NEW = "new"

def take(order_id: str, kind: Kind) -> dict:
    return create_ticket(f"{order_id}/{kind.value}")
""",
    "not yet written": '''
@effect("later", key="{order_id}", contract=native_key("24h"))
def later(order_id: str) -> str:
    """Will do it."""
    raise NotImplementedError
''',
    "retries within the window": """
@effect(
    "slow",
    key="{order_id}",
    contract=native_key(retention=timedelta(days=2)),
    retries=Retry(attempts=50, longest="30m", total="24h"),
)
def slow(order_id: str) -> dict:
    return crm.post("/slow", json={"id": order_id}).json()
""",
    "recursion, and names that nobody knows": """
def walk(node, depth=0):
    if depth > 3:
        return unknown(node)
    return [walk(child, depth + 1) for child in node.children]

def take(node) -> dict:
    return create_ticket(walk(node)[0].name)
""",
}
