# lint: SML002
"""The uuid is made two functions away."""

from __future__ import annotations

import os
import uuid

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


def new_id(prefix: str) -> str:
    """An id that nobody had before."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def reference_of(request: dict[str, str]) -> str:
    """Looks like a name of the request."""
    reference = new_id(request["kind"])
    return reference.upper()


@workflow
async def triage(ctx: WorkflowContext, request: dict[str, str]) -> str:
    """One ticket for each run."""
    reference = reference_of(request)
    ticket = await ctx.step(create_ticket, reference)  # bad: SML002
    return ticket["id"]
