# lint: SML010
"""The wording is the key: a comma more is another ticket."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key=["{request_id}", "{subject}"], contract=native_key("24h"))  # bad: SML010
async def create_ticket(request_id: str, subject: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": subject})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str, subject: str) -> str:
    """One ticket for each wording of a request."""
    ticket = await ctx.step(create_ticket, request_id, subject)
    return ticket["id"]
