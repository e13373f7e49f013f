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
