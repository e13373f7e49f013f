# lint: SML043 SML044
"""The body asks the clock and sleeps by itself: a replay takes another way."""

from __future__ import annotations

import asyncio
import datetime
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
    """Waits for the morning."""
    hour = datetime.datetime.now().hour  # bad: SML044
    if hour < 8:
        await asyncio.sleep(3600)  # bad: SML043
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
