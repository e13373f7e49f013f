# lint: SML006
"""A counter in the memory of a process numbers the tickets: a restart begins anew."""

from __future__ import annotations

import itertools
import os

import semel.httpx
from semel import WorkflowContext, effect, function, native_key, workflow

CRM = os.environ["CRM_URL"]


NUMBERS = itertools.count(1)


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@function
def next_number() -> str:
    """The next number of this process."""
    return f"ticket-{next(NUMBERS)}"


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each number, and numbers are only known here."""
    number = await ctx.step(next_number)
    ticket = await ctx.step(create_ticket, number)  # bad: SML006
    return ticket["id"]
