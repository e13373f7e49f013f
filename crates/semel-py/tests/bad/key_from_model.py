# lint: SML005
"""What a model calls the request is in the key: asked again, it says something else."""

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


@effect(
    "crm-ticket",
    key=["{request_id}", "{category}"],
    fingerprint=["request_id"],
    contract=native_key("24h"),
)
async def create_ticket(request_id: str, category: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": category})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket for each request and each mood of the model."""
    category = await ctx.step(classify, request_id)
    ticket = await ctx.step(create_ticket, request_id, category)  # bad: SML005
    return ticket["id"]
