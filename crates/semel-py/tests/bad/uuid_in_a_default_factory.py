# lint: SML002
"""The input draws its own id where none is given: each parse is another wish."""

from __future__ import annotations

import os
import uuid

import semel.httpx
from pydantic import BaseModel, Field
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


class Inbound(BaseModel):
    """A request, as it came in."""

    text: str
    request_id: str = Field(default_factory=lambda: str(uuid.uuid4()))


@effect("crm-ticket", key="{inbound.request_id}", contract=native_key("24h"))  # bad: SML002
async def create_ticket(inbound: Inbound) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": inbound.request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, text: str) -> str:
    """One ticket for each time it is read."""
    ticket = await ctx.step(create_ticket, Inbound(text=text))
    return ticket["id"]
