"""Deposits on one account by several writers: none is lost, none counts twice."""

from __future__ import annotations

import json
import os
import sys

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import Semel, WorkflowContext, conditional, effect, function, keys, workflow

RECORDS = os.environ["RECORDS_URL"]
LEASE = os.environ.get("LEASE")
CHANGED = 412
TRIES = 50


class Record(BaseModel):
    """A record at one version, and which write made it."""

    version: int
    value: int
    by: str


class Deposit(BaseModel):
    """A wish: add so much to an account."""

    id: str
    account: str
    amount: int


class Written(BaseModel):
    """How a write on top of one version ended: it is ours, or somebody else was faster."""

    record: Record
    ours: bool


@function(retries=5)
async def read(account: str) -> Record:
    """The record as it is now."""
    async with httpx.AsyncClient(base_url=RECORDS, timeout=20) as records:
        answer = await records.get(f"/records/{account}")
    return Record.model_validate(answer.raise_for_status().json())


def write_key(deposit: Deposit, on: Record) -> list[str]:
    """The same deposit on another version is another intent."""
    return keys.record(deposit.account, f"deposit {deposit.id}", f"on {on.version}")


@effect("account-write", key=write_key, contract=conditional, lease=LEASE)
async def write(deposit: Deposit, on: Record) -> Written:
    """Writes the next version. Whatever was answered, who wrote that version is the truth."""
    ours = semel.intent().downstream_key
    path = f"/records/{deposit.account}"
    change = {"value": on.value + deposit.amount, "by": ours}
    async with semel.httpx.AsyncClient(base_url=RECORDS, timeout=20) as records:
        answer = await records.put(path, json=change, headers={"If-Match": f'"{on.version}"'})
        if answer.status_code == CHANGED:
            answer = await records.get(f"{path}/versions/{on.version + 1}")
    record = Record.model_validate(answer.raise_for_status().json())
    return Written(record=record, ours=record.by == ours)


@workflow
async def deposit(ctx: WorkflowContext, wish: Deposit) -> Record:
    """Reads, writes on top of what was read, and starts over when somebody else was faster."""
    for _ in range(TRIES):
        # Recorded: after a crash the write is repeated on the same version, under the same key.
        current = await ctx.step(read, wish.account)
        written = await ctx.step(write, wish, current)
        if written.ours:
            return written.record
    raise semel.Fail(f"{TRIES} others were faster")


def main() -> None:
    """All deposits at once on one account, each delivered twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    names = sys.argv[1:] or ["deposit-1", "deposit-2"]
    wishes = [Deposit(id=name, account="account-7", amount=10) for name in names]
    runs = {one.id: [app.start(deposit, one, key=one.id) for _ in "12"] for one in wishes}
    print(
        json.dumps({name: [run.result().model_dump() for run in two] for name, two in runs.items()})
    )
    app.close()


if __name__ == "__main__":
    main()
