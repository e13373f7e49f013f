"""A job that is handed over, and a ticket made of its report, by plain steps."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def post(variable: str, path: str, wish: dict[str, str]) -> str:
    answer = httpx.post(f"{os.environ[variable]}{path}", json=wish)
    return str(answer.raise_for_status().json()["id"])


@workflow
async def investigate(ctx: WorkflowContext, job: str) -> str:
    callback = await ctx.callback("report")
    await ctx.step(post, "AGENT_URL", "/jobs", {"job": job, "token": callback.token})
    finding: Any = await callback.answer(timeout="7d")
    return await ctx.step(post, "CRM_URL", "/tickets", {"subject": finding["text"]})
