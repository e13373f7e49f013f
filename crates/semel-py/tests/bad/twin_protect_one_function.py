"""A ticket by a plain step that passes no key on."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def open_ticket(request_id: str, subject: str) -> str:
    wish = {"reference": request_id, "subject": subject}
    answer = httpx.post(f"{os.environ['CRM_URL']}/tickets", json=wish)
    return str(answer.raise_for_status().json()["id"])


@workflow
async def take_request(ctx: WorkflowContext, request: dict[str, Any]) -> str:
    return await ctx.step(open_ticket, request["request_id"], request["subject"])
