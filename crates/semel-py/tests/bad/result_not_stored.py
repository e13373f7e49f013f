# lint: SML031
"""What the CRM answered is thrown away: a repeat cannot tell which ticket it was."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket, and says only what was known before."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})  # bad: SML031
    answer.raise_for_status()
    return {"status": "created", "reference": request_id}


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """Nobody learns the number of the ticket."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["status"]
