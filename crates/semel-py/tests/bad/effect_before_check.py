# lint: SML034
"""Opens the ticket first, and only then asks the ledger whether it was opened before."""

from __future__ import annotations

import os

import httpx
import semel.httpx
from semel import WorkflowContext, effect, function, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("noted", key="{request_id}", contract=native_key("24h"))
async def note(request_id: str) -> dict[str, str]:
    """Notes that there is a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/notes", json={"reference": request_id})
    return answer.raise_for_status().json()


@function
async def open_ticket(request_id: str) -> str:
    """A crash between both lines opens a second ticket."""
    async with httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})  # bad: SML034
    await note(request_id)
    return answer.raise_for_status().json()["id"]


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """Acts, then checks."""
    return await ctx.step(open_ticket, request_id)
