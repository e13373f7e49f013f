# lint: SML008
"""Each approval names the ticket anew: approved twice, it is opened twice."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """Asks a person, and then forgets what the question was about."""
    approval = await ctx.approve("ticket-check", {"request": request_id}, expires="1d")
    ticket = await ctx.step(create_ticket, f"{request_id}/{approval.at}")  # bad: SML008
    return ticket["id"]
