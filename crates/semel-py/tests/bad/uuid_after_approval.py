# lint: SML008
"""A new name after the approval: what was approved is not what is sent."""

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
    """Waits for a yes, then draws a new name."""
    await ctx.wait_for_signal("approved", timeout="1d")
    name = str(ctx.uuid())
    ticket = await ctx.step(create_ticket, name)  # bad: SML008
    return ticket["id"]
