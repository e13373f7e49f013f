# lint: SML002
"""The key is bound by functools.partial, far from the call."""

from __future__ import annotations

import functools
import os
import secrets

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
    """One ticket for each run."""
    token = secrets.token_hex(8)
    opener = functools.partial(create_ticket, request_id=token)
    ticket = await ctx.step(opener)  # bad: SML002
    return ticket["id"]
