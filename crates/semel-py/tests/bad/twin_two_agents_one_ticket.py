"""A note that one plain step reads and writes: the entity keeps others out, not a repeat."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, function, workflow


@function
def note(agent: str) -> int:
    url = f"{os.environ['RECORDS_URL']}/records/ticket-42"
    found = httpx.get(url).raise_for_status().json()
    change = {"value": found["value"] + 1, "by": agent}
    written = httpx.put(url, json=change, headers={"If-Match": f'"{found["version"]}"'})
    return int(written.raise_for_status().json()["value"])


@workflow
async def act(ctx: WorkflowContext, agent: str) -> int:
    async with ctx.entity("ticket:ticket-42"):
        return await ctx.step(note, agent)
