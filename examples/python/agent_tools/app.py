"""An agent whose tools are effects: it may call again in other words, and gets the first ticket."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import AsyncSemel, effect, native_key, tool

MODEL = os.environ["MODEL_URL"]
CRM = os.environ["CRM_URL"]
PATIENCE = float(os.environ.get("PATIENCE", "10"))
TURNS = 10


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str
    reference: str
    subject: str


# The case is what makes it the same intent. The subject is a model's wording, so it does not count.
@tool
@effect(
    "crm-ticket",
    key="{case_id}",
    fingerprint=["case_id"],
    contract=native_key(retention="24h"),
    lease=os.environ.get("LEASE"),
)
async def open_ticket(case_id: str, subject: str) -> Ticket:
    """Opens a ticket for the customer's case."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": case_id, "subject": subject})
    return Ticket.model_validate(answer.raise_for_status().json())


async def ask(messages: list[dict[str, Any]], schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's next message."""
    async with httpx.AsyncClient(base_url=MODEL, timeout=20) as model:
        answer = await model.post("/chat", json={"messages": messages, "tools": schemas})
    message: dict[str, Any] = answer.raise_for_status().json()
    return message


async def use(tools: semel.Toolbox, call: dict[str, Any]) -> str:
    """Calls a tool. Giving up on it cuts nothing: the attempt goes on and keeps its receipt."""
    try:
        called = tools.acall(call["name"], call["arguments"])
        return json.dumps(await asyncio.wait_for(called, PATIENCE), default=dict)
    except asyncio.TimeoutError:
        return "timed out"


async def handle(case_id: str) -> list[str]:
    """Lets the agent work on a case, and returns what its tools answered."""
    # The agent neither sees nor chooses the case.
    tools = semel.tools([open_ticket], case_id=case_id)
    schemas = tools.schemas("openai")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "My printer is on fire"}]
    for _ in range(TURNS):
        message = await ask(messages, schemas)
        messages.append(message)
        if not message["tool_calls"]:
            break
        for call in message["tool_calls"]:
            answer = await use(tools, call)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
    return [message["content"] for message in messages if message["role"] == "tool"]


async def main() -> None:
    """Works on all cases, one after the other."""
    async with AsyncSemel(os.environ.get("SEMEL_STORE", "sqlite:semel.db")):
        cases = sys.argv[1:] or ["case-42"]
        print(json.dumps({case_id: await handle(case_id) for case_id in cases}))


if __name__ == "__main__":
    asyncio.run(main())
