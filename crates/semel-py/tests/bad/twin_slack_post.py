"""A message that a plain step posts, again when nobody recorded that it did."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def post(order_id: str, channel: str) -> str:
    message = {"channel": channel, "text": f"New order: {order_id}"}
    answer = httpx.post(f"{os.environ['SLACK_URL']}/api/chat.postMessage", json=message)
    return str(answer.raise_for_status().json()["ts"])


@workflow
async def announce(ctx: WorkflowContext, order: dict[str, Any]) -> str:
    return await ctx.step(post, order["order_id"], order["channel"])
