# lint: SML021
"""Retries go on for two days, the CRM keeps keys for one: a late retry is a second ticket.

The ledger says the same when the effect is declared, so this file cannot be imported."""

from __future__ import annotations

import os

import semel.httpx
from semel import Retry, WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect(
    "crm-ticket",
    key="{request_id}",
    contract=native_key("24h"),
    retries=Retry(attempts=90, longest="1h", total="48h"),  # bad: SML021
)
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """Tries for longer than anybody remembers."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
