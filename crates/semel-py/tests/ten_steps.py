"""A workflow of ten steps, four of which are effects: what a check of it takes is measured."""

from __future__ import annotations

import os

import semel.httpx
from semel import WorkflowContext, effect, function, native_key, workflow


@function
def think(number: int) -> int:
    return number + 1


@effect("order", key=["{order}", "{part}"], contract=native_key("24h"))
def send(order: str, part: int) -> str:
    with semel.httpx.Client(base_url=os.environ["SHOP_URL"], timeout=20) as shop:
        answer = shop.post("/parts", json={"order": order, "part": part})
    return str(answer.raise_for_status().json()["id"])


@workflow
async def ten_steps(ctx: WorkflowContext, order: str) -> list[str]:
    sent: list[str] = []
    number = 0
    for part in range(4):
        number = await ctx.step(think, number)
        sent.append(await ctx.step(send, order, part))
    number = await ctx.step(think, number)
    await ctx.step(think, number)
    return sent
