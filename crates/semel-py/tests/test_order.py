"""What goes on side by side in a body is in the same order in every replay, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from semel import RunPaused, Semel, WorkflowContext, function, workflow

WAIT_S = 20
MANY = range(12)


@function
async def echo(x: int) -> int:
    """What it was given."""
    return x


async def branch(ctx: WorkflowContext, x: int) -> list[int]:
    """Its step is named when it begins: after how many others, that counts."""
    return [x, await ctx.step(echo, x)]


@workflow
async def by_chance(ctx: WorkflowContext) -> list[Any]:
    """Begins its branches in the order of a set of coroutines."""
    return [await done for done in asyncio.as_completed([branch(ctx, x) for x in MANY])]


@workflow
async def by_tasks(ctx: WorkflowContext) -> list[Any]:
    """Begins its branches in order."""
    tasks = [asyncio.create_task(branch(ctx, x)) for x in MANY]
    return [await done for done in asyncio.as_completed(tasks)]


@workflow
async def by_steps(ctx: WorkflowContext) -> list[int]:
    """Each step was named by its call."""
    steps: list[Coroutine[Any, Any, int]] = [ctx.step(echo, x) for x in MANY]
    return sorted([await done for done in asyncio.as_completed(steps)])


@workflow
async def waits_for_all(ctx: WorkflowContext) -> list[int]:
    """Goes through a set of tasks."""
    tasks = [asyncio.create_task(branch(ctx, x)) for x in MANY]
    done, _ = await asyncio.wait(tasks)
    assert await asyncio.gather(*(asyncio.shield(branch(ctx, x)) for x in MANY))
    return [task.result()[0] for task in done]


def test_coroutines_in_the_order_of_a_set_are_refused(app: Semel) -> None:
    with pytest.raises(RunPaused, match="order of chance") as paused:
        app.start(by_chance, key="1").result(timeout=WAIT_S)
    assert "foreign_await" in paused.value.detail


def test_tasks_and_steps_may_be_taken_as_they_complete(app: Semel) -> None:
    pairs = app.start(by_tasks, key="1").result(timeout=WAIT_S)
    assert sorted(pairs) == [[x, x] for x in MANY]
    assert app.start(by_steps, key="1").result(timeout=WAIT_S) == [*MANY]


def test_a_set_of_tasks_is_in_the_same_order_in_every_run(app: Semel) -> None:
    orders: set[tuple[int, ...]] = set()
    kept: list[object] = []
    for number in range(3):
        orders.add(tuple(app.start(waits_for_all, key=str(number)).result(timeout=WAIT_S)))
        kept.extend(bytearray(200 * x) for x in range(number * 50))  # the memory is another one
    assert len(orders) == 1
