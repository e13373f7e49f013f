"""A charge without a ledger and without a key."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def charge(order_id: str, cents: int) -> str:
    wish = {"amount": str(cents), "metadata[order_id]": order_id}
    answer = httpx.post(f"{os.environ['STRIPE_URL']}/v1/payment_intents", data=wish)
    return str(answer.raise_for_status().json()["id"])


@workflow
async def pay(ctx: WorkflowContext, order: dict[str, Any]) -> str:
    return await ctx.step(charge, order["order_id"], order["cents"])
