# lint: SML033
"""Looks for the ticket and opens it if there is none: two at once both find none."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, function, workflow

CRM = os.environ["CRM_URL"]


@function
async def ensure_ticket(request_id: str) -> dict[str, str]:
    """Finds the ticket, or opens it."""
    async with httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        found = await crm.get("/tickets", params={"reference": request_id})
        tickets = found.raise_for_status().json()
        if tickets:
            return tickets[0]
        answer = await crm.post("/tickets", json={"reference": request_id})  # bad: SML033
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket, unless somebody else is as fast."""
    ticket = await ctx.step(ensure_ticket, request_id)
    return ticket["id"]
