"""A page that is put by a plain step, over whatever is there."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def put(page: dict[str, str]) -> str:
    url = f"{os.environ['CMS_URL']}/pages/{page['id']}/{page['revision']}"
    return str(httpx.put(url, json=page).raise_for_status().json()["url"])


@workflow
async def publish(ctx: WorkflowContext, wish: dict[str, Any]) -> str:
    return await ctx.step(put, wish["page"])
