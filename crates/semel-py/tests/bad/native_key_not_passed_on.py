# lint: SML023
"""The CRM honours keys, and gets none: the repeat after a cut answer opens a second ticket."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket, without the key that the contract is about."""
    async with httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})  # bad: SML023
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """The promise of a contract that nobody keeps."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
