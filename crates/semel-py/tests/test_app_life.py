"""A Semel is opened and closed, its event loop ends, its workflows are typed in: nobody is left
waiting for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from semel import AsyncSemel, WorkflowContext, function, workflow

WAIT_S = 10


@function
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@workflow
async def flow(ctx: WorkflowContext, x: int) -> int:
    """One step."""
    return await ctx.step(double, x)


def test_an_async_semel_that_is_opened_again_works_its_runs(sqlite_url: str) -> None:
    async def main() -> list[int]:
        app = AsyncSemel(sqlite_url)
        found: list[int] = []
        for x in (1, 2):
            async with app:
                run = await app.start(flow, x, key=str(x))
                found.append(await run.result(timeout=WAIT_S))
        return found

    assert asyncio.run(main()) == [2, 4]


TYPED_IN = """
import os
from semel import Semel, workflow

@workflow
async def one(ctx) -> int:
    return 1

@workflow
async def two(ctx) -> int:
    return 2

assert one.release == one.release != two.release
app = Semel(os.environ["STORE"])
print(app.start(one, key="1").result(timeout=10), app.start(two, key="1").result(timeout=10))
"""


def test_a_workflow_may_be_typed_in(sqlite_url: str) -> None:
    line, store = [sys.executable, "-"], {"STORE": sqlite_url}
    ran = subprocess.run(
        line, input=TYPED_IN, env=store, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.returncode) == ("1 2\n", 0), ran.stderr


STARTED: list[int] = []


@function
async def slow_at_first() -> int:
    """Not done before its event loop ends."""
    STARTED.append(1)
    await asyncio.sleep(60 if len(STARTED) == 1 else 0)
    return len(STARTED)


@workflow
async def left(ctx: WorkflowContext) -> int:
    """Is left by the event loop that works on it."""
    return await ctx.step(slow_at_first)


def test_an_event_loop_that_ends_lets_the_runs_of_its_semel_go(sqlite_url: str) -> None:
    STARTED.clear()
    kept = AsyncSemel(sqlite_url, lease="2s")  # as in a global variable: it is not collected

    async def begin() -> None:
        await kept.start(left, key="1")
        while not STARTED:
            await asyncio.sleep(0.02)

    async def go_on() -> int:
        async with AsyncSemel(sqlite_url, lease="2s") as app:
            return await (await app.start(left, key="1")).result(timeout=20)

    async def use_again() -> int:
        async with kept:
            return await (await kept.start(flow, 3, key="3")).result(timeout=WAIT_S)

    asyncio.run(begin())
    assert asyncio.run(go_on()) == 2
    assert asyncio.run(use_again()) == 6
