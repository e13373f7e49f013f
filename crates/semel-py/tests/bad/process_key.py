# lint: SML004
"""The process is in the key: whoever takes over opens a second ticket."""

from __future__ import annotations

import os
import socket

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect(
    "crm-ticket",
    key=lambda request_id: [request_id, socket.gethostname(), str(os.getpid())],  # bad: SML004
    contract=native_key("24h"),
)
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each request and process."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]
