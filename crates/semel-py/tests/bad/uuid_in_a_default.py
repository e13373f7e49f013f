# lint: SML002
"""The uuid is a default of the effect, drawn anew by each process."""

from __future__ import annotations

import os
import uuid

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))  # bad: SML002
async def create_ticket(subject: str, request_id: str = str(uuid.uuid4())) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": subject})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each process."""
    ticket = await ctx.step(create_ticket, f"about {request_id}")
    return ticket["id"]
