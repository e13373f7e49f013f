# lint: SML002 SML023
"""An idempotency key is sent, and it is another one in each attempt."""

from __future__ import annotations

import os
import uuid

import httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    async with httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        ticket = {"reference": request_id}
        answer = await crm.post("/tickets", json=ticket, headers=key)  # bad: SML002 SML023
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """The destination cannot know that it is the same wish."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
