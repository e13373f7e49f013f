# lint: SML042
"""A model is asked in a plain function: each retry asks, and pays, again."""

from __future__ import annotations

import os

import openai
import semel.httpx
from semel import WorkflowContext, effect, function, native_key, workflow

CRM = os.environ["CRM_URL"]


def client() -> openai.AsyncOpenAI:
    """The client of the model."""
    return openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="none")


@function
async def classify(text: str) -> str:
    """Asks the model for a category."""
    messages = [{"role": "user", "content": text}]
    answer = await client().chat.completions.create(model="m", messages=messages)  # bad: SML042
    return answer.choices[0].message.content


@effect("crm-ticket", key="{request_id}", fingerprint=["request_id"], contract=native_key("24h"))
async def create_ticket(request_id: str, subject: str) -> dict[str, str]:
    """Opens a ticket."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": subject})
    return answer.raise_for_status().json()


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """One ticket, and as many questions as there are crashes."""
    subject = await ctx.step(classify, request_id)
    ticket = await ctx.step(create_ticket, request_id, subject)
    return ticket["id"]
