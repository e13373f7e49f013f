"""A tool that opens a ticket by a plain step, whenever the agent calls it."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def open_ticket(case_id: str) -> str:
    answer = httpx.post(f"{os.environ['CRM_URL']}/tickets", json={"reference": case_id})
    return str(answer.raise_for_status().json()["id"])


@workflow
async def use_tool(ctx: WorkflowContext, call: dict[str, Any]) -> str:
    return await ctx.step(open_ticket, call["case_id"])
