"""Small applications that the tests of `semel check` write into files."""

from __future__ import annotations

# Keeps what it was asked for in a file, by key, and by store: each case has one of its own.
DESTINATION = """
import os
import semel
from semel import Semel, WorkflowContext, effect, function, native_key, workflow

BOOK = os.environ["BOOK"]


def happened(what, key):
    line = f"{what} {key} {os.environ['SEMEL_STORE']}"
    known = open(BOOK).read().splitlines()
    if key == "no-key" or line not in known:
        with open(BOOK, "a") as book:
            book.write(line + chr(10))
    return f"{what}-1"
"""

COUNTER = """
import os
from collections import Counter
from pathlib import Path

BOOK = Path(__file__).parent / "book"
BOOK.touch()
os.environ["BOOK"] = str(BOOK)


def count():
    return Counter(line.split()[0] for line in BOOK.read_text().splitlines())


def wrong():
    return 42
"""

GOOD = (
    DESTINATION
    + """

@function
def think(x: int) -> int:
    return x + 1


@effect("letter", key="{x}", contract=native_key("24h"))
def send(x: int) -> str:
    return happened("letter", semel.intent().downstream_key)


@workflow
async def week(ctx: WorkflowContext, x: int) -> str:
    y = await ctx.step(think, x)
    await ctx.sleep("7d")
    sent = await ctx.step(send, y)
    answer = await ctx.wait_for_signal("go", timeout="30d")
    return f"{sent} {answer.word}"
"""
)

BAD = (
    DESTINATION
    + """

@function
def send(x: int) -> str:
    return happened("letter", "no-key")


@workflow
async def plain(ctx: WorkflowContext, x: int) -> str:
    return await ctx.step(send, x)
"""
)

# Opens its ledger when it is imported, and on a store of its user's.
OPENS = (
    DESTINATION
    + """
app = Semel("sqlite:" + os.path.join(os.path.dirname(__file__), "precious.db"))


@effect("letter", key="{x}", contract=native_key("24h"))
def send(x: int) -> str:
    return happened("letter", semel.intent().downstream_key)
"""
)

APPROVED = (
    DESTINATION
    + """
from semel import approval


@effect("letter", key="{x}", contract=native_key("24h"), approval=approval(expires="7d"))
def send(x: int) -> str:
    return happened("letter", semel.intent().downstream_key)


@workflow
async def asked(ctx: WorkflowContext, x: int) -> str:
    callback = await ctx.callback("report")
    said = await callback.answer(timeout="7d")
    return f"{said} {await ctx.step(send, x)}"
"""
)

BOOKS = (
    DESTINATION
    + """
from typing import Any
from semel import transaction


@transaction("book", key="{x}")
def book(tx: Any, x: int) -> int:
    tx.execute("CREATE TABLE IF NOT EXISTS booking (number INTEGER)")
    tx.execute("INSERT INTO booking VALUES (?)", [x])
    [(count,)] = tx.execute("SELECT count(*) FROM booking")
    return count


@function
def keep(x: int) -> int:
    return book(x)


@workflow
async def books(ctx: WorkflowContext, x: int) -> int:
    return await ctx.step(keep, x)
"""
)
"""Its rows are in the ledger's own file."""

# An effect that reads from the destination after its write.
READS_AFTER = """
import os
import httpx
from semel import NotApplied, WorkflowContext, effect, workflow

CRM = os.environ["CRM_URL"]


def believes(error):
    is_refusal = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 403
    return NotApplied("refused") if is_refusal and os.environ.get("BELIEVES") else None


@effect("ticket", key="{x}", classify=believes)
def make(x: int) -> dict:
    ticket = httpx.post(f"{CRM}/tickets", json={"x": x}).raise_for_status().json()
    httpx.get(f"{CRM}/tickets?x={x}").raise_for_status()
    return ticket


@workflow
async def ticket(ctx: WorkflowContext, x: int) -> dict:
    return await ctx.step(make, x)
"""
