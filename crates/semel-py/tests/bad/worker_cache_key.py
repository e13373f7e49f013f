# lint: SML006
"""Keys are kept in a dictionary of the process: the next process knows none of them."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


SEEN: dict[str, str] = {}


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


def ticket_name(request_id: str) -> str:
    """The name that this process has given to a request."""
    SEEN.setdefault(request_id, f"ticket-{len(SEEN)}")
    return SEEN[request_id]


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each place in the dictionary."""
    ticket = await ctx.step(create_ticket, ticket_name(request_id))  # bad: SML006
    return ticket["id"]
