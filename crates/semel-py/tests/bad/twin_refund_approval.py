"""A refund that a person approves, and that a plain step then sends."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def pay_back(order_id: str, cents: int) -> str:
    wish = {"payment_intent": order_id, "amount": str(cents)}
    answer = httpx.post(f"{os.environ['STRIPE_URL']}/v1/refunds", data=wish)
    return str(answer.raise_for_status().json()["id"])


@workflow
async def refund(ctx: WorkflowContext, wish: dict[str, Any]) -> str:
    said = await ctx.wait_for_user("refund", "Pay it back?", choices=["yes", "no"], timeout="7d")
    return await ctx.step(pay_back, wish["order_id"], wish["cents"]) if said == "yes" else "no"
