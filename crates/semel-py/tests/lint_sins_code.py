"""Code that does things where it must not: each marked line must be found, and no other."""

from __future__ import annotations

CODE_SINS = {
    "a read after the write": """
@effect("made", key="{order_id}")
def make(order_id: str) -> dict:
    made = requests.post("http://crm.example/things", json={"id": order_id}).json()
    owner = requests.get("http://people.example/owner").json()  # bad: SML035
    return {"made": made["id"], "owner": owner["id"]}
""",
    "a read after the write, by a helper": """
def owner_of(order_id: str) -> dict:
    return plain.get(f"/owners/{order_id}").json()  # bad: SML035

@effect("made", key="{order_id}", contract=probe(lambda order_id: None))
async def make(order_id: str) -> dict:
    made = crm.post("/things", json={"id": order_id}).json()
    return {**made, **owner_of(order_id)}
""",
    "an effect that tenacity repeats": """
from tenacity import retry, stop_after_attempt

@effect("made", key="{order_id}", contract=native_key("24h"))
@retry(stop=stop_after_attempt(3))  # bad: SML036
def make(order_id: str) -> dict:
    return crm.post("/things", json={"id": order_id}).json()
""",
    "a helper that backoff repeats": """
import backoff

@backoff.on_exception(backoff.expo, httpx.HTTPError, max_tries=3)  # bad: SML036
def send(order_id: str) -> dict:
    return plain.post("/things", json={"id": order_id}).json()

@effect("made", key="{order_id}")
def make(order_id: str) -> dict:
    return send(order_id)
""",
    "an adapter that retries": """
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

session = requests.Session()
session.mount("https://", HTTPAdapter(max_retries=Retry(3, allowed_methods=None)))  # bad: SML036

@effect("made", key="{order_id}")
def make(order_id: str) -> dict:
    return session.post("https://crm.example/things", json={"id": order_id}).json()
""",
    "tenacity as an iterator": """
import tenacity

@effect("made", key="{order_id}")
def make(order_id: str) -> dict:
    again = tenacity.Retrying(stop=tenacity.stop_after_attempt(3))  # bad: SML036
    return again(plain.post, "/things", json={"id": order_id}).json() or plain.post("/x").json()
""",
    "commands that nobody awaits": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    ctx.step(create_ticket, order_id)  # bad: SML045
    ctx.sleep("1h")  # bad: SML045
    forgotten = ctx.wait_for_signal("paid")  # bad: SML045
    asyncio.create_task(ctx.step(create_ticket, order_id))  # bad: SML045
""",
    "two writes by two helpers": """
def note(order_id: str) -> None:
    crm.post("/notes", json={"id": order_id})  # bad: SML032

@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str) -> dict:
    answer = crm.post("/things", json={"id": order_id})
    note(order_id)
    return answer.json()
""",
    "two writes, one in a branch": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str, is_vip: bool) -> dict:
    answer = crm.post("/things", json={"id": order_id})
    if is_vip:
        crm.post("/gifts", json={"id": order_id})  # bad: SML032
    return answer.json()
""",
    "a write for each item": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str, items: list[str]) -> list:
    return [crm.post("/items", json={"id": one}).json() for one in items]  # bad: SML032
""",
    "a write after a failed write": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str) -> dict:
    try:
        return crm.post("/things", json={"id": order_id}).json()
    except httpx.HTTPError:
        return crm.post("/backup/things", json={"id": order_id}).json()  # bad: SML032
""",
    "writes in a body, by all clients": """
import boto3, smtplib

@workflow
async def w(ctx: WorkflowContext, order_id: str):
    requests.post("http://crm.example", json={})  # bad: SML040
    boto3.client("sqs").send_message(QueueUrl="q", MessageBody="b")  # bad: SML040
    smtplib.SMTP("localhost").sendmail("a", "b", "c")  # bad: SML040
""",
    "a write in a step's lambda": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    await ctx.step("post", lambda: plain.post("/things", json={"id": order_id}))  # bad: SML040
""",
    "a write in SQL": """
import psycopg

@function
def save(order_id: str) -> None:
    with psycopg.connect("postgres://") as connection:
        connection.execute("INSERT INTO orders VALUES (%s)", [order_id])  # bad: SML040
""",
    "a write in a tool that says it reads": """
@tool(read=True)
def search(text: str) -> list:
    return plain.post("/orders", json={"text": text}).json()  # bad: SML040
""",
    "the function behind the decorator": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    create_ticket.function(order_id)  # bad: SML040
""",
    "an effect behind a helper of the body": """
def helper(order_id: str) -> dict:
    return create_ticket(order_id)  # bad: SML041

@workflow
async def w(ctx: WorkflowContext, order_id: str):
    return helper(order_id)
""",
    "models in a body and behind a helper": """
import litellm, openai

def ask(text: str) -> str:
    return litellm.completion(model="m", messages=[{"content": text}])  # bad: SML042

@workflow
async def w(ctx: WorkflowContext, text: str):
    await ctx.step("ask", lambda: ask(text))
    openai.OpenAI().responses.create(model="m", input=text)  # bad: SML042
""",
    "waits that are not the run's": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    time.sleep(1)  # bad: SML043
    await asyncio.to_thread(print, order_id)  # bad: SML043
    async with httpx.AsyncClient() as client:
        await client.get("http://crm.example")  # bad: SML043
""",
    "chance in a body": """
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    if random.random() < 0.5:  # bad: SML044
        await ctx.step(create_ticket, order_id)
""",
    "a search before a create, without a ledger": """
def ensure(order_id: str) -> dict:
    found = requests.get("http://crm.example/orders", params={"id": order_id}).json()
    if not found:
        found = requests.post("http://crm.example/orders", json={"id": order_id})  # bad: SML033
    return found
""",
    "a search before a create, in an effect without a probe": """
@effect("made", key="{order_id}", contract=at_most_once)
def make(order_id: str) -> dict:
    found = plain.get(f"/things/{order_id}")
    if found.status_code == 404:
        return plain.post("/things", json={"id": order_id}).json()  # bad: SML033
    return found.json()
""",
    "a mark in a cache before a send": """
import redis
marks = redis.Redis()
def once(order_id: str) -> None:
    if marks.get(order_id) is None:
        marks.set(order_id, "1")
        requests.post("http://crm.example/orders", json={"id": order_id})  # bad: SML033
""",
    "a search that names what it looks for in its question": """
def ensure(order_id: str) -> None:
    found = plain.get(f"/search?order={order_id}").json()
    if not found:
        plain.post("/orders", json={"id": order_id})  # bad: SML033
""",
    "one thing, and all of them": """
def ensure(order_id: str) -> None:
    base = os.environ["CRM_URL"]
    if requests.get(f"{base}/v1/order/{order_id}").status_code == 404:
        requests.post(f"{base}/v1/orders", json={"id": order_id})  # bad: SML033
""",
    "the ledger is asked too late": """
def take(order_id: str) -> None:
    requests.post("http://crm.example/orders", json={"id": order_id})  # bad: SML034
    if app.find("orders", order_id) is None:
        create_ticket(order_id)
""",
    "nothing is returned": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str) -> None:  # bad: SML030
    crm.post("/things", json={"id": order_id}).raise_for_status()
""",
    "whether it worked": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str) -> bool:  # bad: SML030
    return crm.post("/things", json={"id": order_id}).status_code == 201
""",
    "retries off, by a policy and on a function": """
ONCE = Retry(attempts=1)

@effect("made", key="{order_id}", contract=native_key("24h"), retries=ONCE)  # bad: SML020
def make(order_id: str) -> dict:
    return crm.post("/things", json={"id": order_id}).json()

@function(retries=0)  # bad: SML020
def fetch(order_id: str) -> str:
    return plain.get("/things").text
""",
    "retries for longer than a receipt is kept": """
@effect("made", key="{order_id}", retries=Retry(total=timedelta(hours=2)),  # bad: SML021
        replay_window="1h", contract=at_most_once)
def make(order_id: str) -> dict:
    return crm.post("/things", json={"id": order_id}).json()
""",
    "a contract by a shared decorator": """
keyed = functools.partial(effect, contract=native_key("24h"))

@keyed("made", key="{order_id}")
def make(order_id: str) -> dict:
    return plain.post("/things", json={"id": order_id}).json()  # bad: SML023
""",
    "a tool whose words all count": """
@tool
@effect("case", key="{case_id}", contract=native_key("24h"))  # bad: SML024
def open_case(case_id: str, subject: str) -> dict:
    return crm.post("/cases", json={"id": case_id}).json()
""",
    "the answer is thrown away": """
@effect("made", key="{order_id}", contract=native_key("24h"))
def make(order_id: str) -> str:
    crm.post("/things", json={"id": order_id})  # bad: SML031
    return f"made {order_id}"
""",
    "a write by urllib": """
import urllib.request
@function
def post(order_id: str):
    req = urllib.request.Request("http://x/orders", data=b"{}", method="POST")
    return urllib.request.urlopen(req).read()  # bad: SML040
""",
    "a write by aiohttp": """
import aiohttp
@function
async def post(order_id: str):
    async with aiohttp.ClientSession() as s:
        async with s.post("http://x", json={}) as r:  # bad: SML040
            return await r.json()
""",
    "writes by SQLAlchemy": """
import sqlalchemy as sa
from sqlalchemy import insert, text
engine = sa.create_engine("x")
@function
def save(order_id: str, users):
    with engine.begin() as c:
        c.execute(insert(users).values(id=order_id))  # bad: SML040
        c.execute(text("update x set y=1"))  # bad: SML040
        return c.execute(text("select 1")).scalar()
""",
    "a write by Stripe": """
import stripe
@function
def pay(order_id: str):
    return stripe.PaymentIntent.create(amount=1).id  # bad: SML040
""",
    "a client's method as a step": """
from slack_sdk import WebClient
client = WebClient(token="x")
@workflow
async def w(ctx: WorkflowContext, order_id: str):
    await ctx.step("say", client.chat_postMessage, channel="#x", text=order_id)  # bad: SML040
""",
}
