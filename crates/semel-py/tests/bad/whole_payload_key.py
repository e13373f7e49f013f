# lint: SML010
"""A digest of the payload as it came: another space is another ticket."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import semel.httpx
from semel import WorkflowContext, effect, native_key, workflow

CRM = os.environ["CRM_URL"]


def payload_key(payload: dict[str, Any]) -> str:
    """A digest of everything, in the order in which it happens to be."""
    return hashlib.sha256(json.dumps(payload).encode()).hexdigest()


@effect("crm-ticket", key=payload_key, contract=native_key("24h"))  # bad: SML010
async def create_ticket(payload: dict[str, Any]) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": payload["request_id"]})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, payload: dict[str, Any]) -> str:
    """One ticket for each way to write the same request."""
    ticket = await ctx.step(create_ticket, payload)
    return ticket["id"]
