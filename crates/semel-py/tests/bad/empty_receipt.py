# lint: SML030
"""The receipt is a bare True: nothing can be found by it."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> bool:  # bad: SML030
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    answer.raise_for_status()
    return True


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> bool:
    """Done, whatever that was."""
    return await ctx.step(create_ticket, request_id)
