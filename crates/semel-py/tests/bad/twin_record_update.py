"""A deposit that reads and writes in one plain step: done again, it is deposited again."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def add(account: str, amount: int) -> int:
    url = f"{os.environ['RECORDS_URL']}/records/{account}"
    found = httpx.get(url).raise_for_status().json()
    change = {"value": found["value"] + amount, "by": "twin"}
    written = httpx.put(url, json=change, headers={"If-Match": f'"{found["version"]}"'})
    return int(written.raise_for_status().json()["value"])


@workflow
async def deposit(ctx: WorkflowContext, wish: dict[str, Any]) -> int:
    return await ctx.step(add, wish["account"], wish["amount"])
