# lint: SML040
"""A plain step writes: a crash before its record writes again."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, function, workflow

CRM = os.environ["CRM_URL"]


@function
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})  # bad: SML040
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each attempt."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
