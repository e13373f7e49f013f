# lint: SML002
"""The webhook draws the key of the run: a redelivery is a second run."""

from __future__ import annotations

import os
import uuid

import semel.httpx
from semel import Semel, WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each request."""
    ticket = await ctx.step(create_ticket, request_id)
    return ticket["id"]


def webhook(app: Semel, delivery: dict[str, str]) -> str:
    """Takes a delivery in; one without an id gets one here, another one each time."""
    key = delivery.get("event_id") or uuid.uuid4().hex
    return app.start(triage, delivery["request_id"], key=key).result()  # bad: SML002
