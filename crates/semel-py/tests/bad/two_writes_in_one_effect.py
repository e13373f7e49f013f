# lint: SML032
"""A ticket and a note in one effect: a crash between both leaves half of it."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket and writes a note to it, both under one key."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
        ticket = answer.raise_for_status().json()
        await crm.post("/notes", json={"reference": request_id})  # bad: SML032
    return ticket


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """Two wishes, one receipt."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
