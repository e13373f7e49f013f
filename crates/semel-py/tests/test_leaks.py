"""Many runs, and Semels that are opened and closed, leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from pathlib import Path

import pytest
from conftest import until
from semel import AsyncSemel, RunCancelled, Semel, WorkflowContext, function, workflow


@function
async def double(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


@function
def double_sync(x: int) -> int:
    return x * 2


@workflow
async def flow(ctx: WorkflowContext, x: int) -> int:
    return await ctx.step(double_sync, await ctx.step(double, x))


@workflow
async def waits(ctx: WorkflowContext) -> None:
    await ctx.wait_for_signal("go")


@workflow(fails=ValueError)
async def raises(ctx: WorkflowContext, x: int) -> None:
    await ctx.step(double, x)
    raise ValueError(x)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


async def _round(app: AsyncSemel, count: int) -> None:
    """Many runs at once: some end, some fail, some are cancelled while they wait."""
    fine = await asyncio.gather(*(app.start(flow, x) for x in range(count // 2)))
    bad = await asyncio.gather(*(app.start(raises, x) for x in range(count // 4)))
    idle = await asyncio.gather(*(app.start(waits) for _ in range(count // 4)))
    assert await asyncio.gather(*(one.result() for one in fine)) == [
        x * 4 for x in range(count // 2)
    ]
    failed = await asyncio.gather(*(one.result() for one in bad), return_exceptions=True)
    assert {type(one) for one in failed} == {ValueError}
    await asyncio.gather(*(one.cancel("enough") for one in idle))
    ended = await asyncio.gather(*(one.result() for one in idle), return_exceptions=True)
    assert {type(one) for one in ended} == {RunCancelled}


@pytest.mark.slow
def test_a_thousand_runs_leave_nothing_behind(sqlite_url: str) -> None:
    async def main() -> None:
        threads = threading.active_count()
        async with AsyncSemel(sqlite_url) as app:
            await _round(app, 1000)
            gc.collect()
            before = _open_files()
            objects, resident = len(gc.get_objects()), _resident_kib()
            for _ in range(2):
                await _round(app, 1000)
            await asyncio.sleep(1.5)
            gc.collect()
            assert _open_files() <= before
            assert threading.active_count() < threads + 64 + 10, "the threads of steps are bounded"
            assert len(asyncio.all_tasks()) == 1
            assert app.host.inbox.jobs_open() == 0
            assert app.native.runs_held() == 0
            assert not app.host._bodies
            assert not app.host._told
            assert len(gc.get_objects()) - objects < 2_000, "objects of Python stay behind"
            assert _resident_kib() - resident < 30_000

    asyncio.run(main())


def test_closing_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    def use(number: int) -> None:
        app = Semel(f"sqlite:{tmp_path}/{number}.db")
        assert app.start(flow, 1).result(timeout=20) == 4
        with pytest.raises(ValueError, match="1"):
            app.start(raises, 1).result(timeout=20)
        app.close()

    use(0)
    gc.collect()
    time.sleep(0.3)
    before = (_open_files(), threading.active_count())
    for number in range(1, 6):
        use(number)
    gc.collect()
    until(lambda: (_open_files(), threading.active_count()) <= before, timeout=10)
    assert {one.name for one in threading.enumerate() if "semel" in one.name} == set()


def test_async_semels_leave_no_file(tmp_path: Path) -> None:
    async def use(number: int) -> None:
        async with AsyncSemel(f"sqlite:{tmp_path}/{number}.db") as app:
            assert await (await app.start(flow, 1)).result(timeout=20) == 4

    asyncio.run(use(0))
    gc.collect()
    time.sleep(0.3)
    before = _open_files()
    for number in range(1, 6):
        asyncio.run(use(number))
    gc.collect()
    until(lambda: _open_files() <= before, timeout=10)
