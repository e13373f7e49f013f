# lint: SML003
"""The attempt is in the key: the retry after a crash is another wish."""

from __future__ import annotations

import os

import semel.httpx
from semel import StepContext, WorkflowContext, effect, function, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@function
def name_ticket(ctx: StepContext, request_id: str) -> str:
    """Names the ticket, by its attempt as well."""
    return f"{request_id}-{ctx.attempt}"


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each attempt."""
    name = await ctx.step(name_ticket, request_id)
    ticket = await ctx.step(create_ticket, name)  # bad: SML003
    return ticket["id"]
