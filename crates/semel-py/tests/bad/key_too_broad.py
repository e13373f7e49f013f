# lint: SML009
"""The customer alone is the key: the second request of a customer gets no ticket."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{customer_id}", contract=native_key("24h"))  # bad: SML009
async def create_ticket(customer_id: str, request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each customer, for ever."""
    ticket = await ctx.step(create_ticket, "customer-7", request_id)
    return ticket["id"]
