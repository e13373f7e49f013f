"""A ticket for each delivery of an event, by a plain step."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def open_ticket(event_id: str) -> str:
    answer = httpx.post(f"{os.environ['CRM_URL']}/tickets", json={"reference": event_id})
    return str(answer.raise_for_status().json()["id"])


@workflow
async def consume(ctx: WorkflowContext, message: dict[str, Any]) -> str:
    return await ctx.step(open_ticket, message["event_id"])
