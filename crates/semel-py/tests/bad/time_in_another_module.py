# lint: SML001
"""The key is made by a helper in another module, which looks at the clock."""

from __future__ import annotations

import os

import semel.httpx
from helpers import naming
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
    """One ticket for each second."""
    ticket = await ctx.step(create_ticket, naming.reference(request_id))  # bad: SML001
    return ticket["id"]
