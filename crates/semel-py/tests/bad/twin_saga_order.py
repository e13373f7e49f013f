"""An order whose steps are plain, and whose undos are written by hand."""

from __future__ import annotations

import os
from typing import Any

import httpx
from semel import WorkflowContext, function, workflow


@function
def ask_shop(path: str, order_id: str, to: str = "") -> dict[str, Any]:
    answer = httpx.post(f"{os.environ['SHOP_URL']}{path}", json={"order": order_id, "to": to})
    return dict(answer.raise_for_status().json())


@workflow
async def order(ctx: WorkflowContext, order_id: str, to: str) -> str:
    await ctx.step(ask_shop, "/reservations", order_id)
    await ctx.step(ask_shop, "/charges", order_id)
    parcel = await ctx.step(ask_shop, "/parcels", order_id, to)
    if "refused" not in parcel:
        return "shipped"
    await ctx.step(ask_shop, "/refunds", order_id)
    await ctx.step(ask_shop, "/releases", order_id)
    return "taken back"
