# lint: SML024
"""A model's words are part of what must not change: a second run is refused."""

from __future__ import annotations

import os

import httpx
import semel.httpx
from semel import WorkflowContext, effect, model, native_key, workflow

CRM = os.environ["CRM_URL"]


MODEL = os.environ["MODEL_URL"]


@model
async def classify(text: str) -> str:
    """Asks the model for a category."""
    async with httpx.AsyncClient(base_url=MODEL, timeout=20) as client:
        answer = await client.post("/classify", json={"subject": "", "text": text})
    return answer.raise_for_status().json()["category"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
async def create_ticket(request_id: str, subject: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": subject})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """The second run words it otherwise, and gets input_changed."""
    category = await ctx.step(classify, request_id)
    ticket = await ctx.step(create_ticket, request_id, f"{category}: {request_id}")  # bad: SML024
    return ticket["id"]
