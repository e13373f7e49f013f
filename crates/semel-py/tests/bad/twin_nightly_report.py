"""A report that is put by a plain step, over whatever is there."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, function, workflow


@function
def put(tick: str, branch: str) -> str:
    url = f"{os.environ['CMS_URL']}/pages/report/{tick}"
    return str(httpx.put(url, json={"title": branch}).raise_for_status().json()["url"])


@workflow
async def report(ctx: WorkflowContext, branch: str) -> str:
    return await ctx.step(put, ctx.key.split(",")[1], branch)
