# lint: SML040
"""A helper of a plain step writes, where nobody looks for it."""

from __future__ import annotations

import os
from typing import Any

import requests
from semel import WorkflowContext, workflow

CRM = os.environ["CRM_URL"]


def ask_crm(method: str, path: str, body: dict[str, Any]) -> dict[str, str]:
    """One request to the CRM."""
    return requests.request(method, CRM + path, json=body, timeout=20).json()  # bad: SML040


def open_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    return ask_crm("POST", "/tickets", {"reference": request_id})


@workflow
async def triage(ctx: WorkflowContext, request_id: str) -> str:
    """A callable is a step, too, and no effect."""
    ticket = await ctx.step("open", lambda: open_ticket(request_id))
    return ticket["id"]
