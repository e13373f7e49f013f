"""Async code: event loops that come and go, tasks that are cancelled, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import semel
from conftest import Script, World, until
from semel import (
    AsyncSemel,
    InDoubt,
    Semel,
    SemelError,
    TimedOut,
    WorkflowContext,
    effect,
    function,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


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
async def waits(ctx: WorkflowContext) -> Any:
    return (await ctx.wait_for_signal("go")).payload


@workflow(on_error="fail")
async def too_slow(ctx: WorkflowContext) -> None:
    raise TimeoutError("of the workflow itself")


@effect("send", key="{id}")
async def send(id: str, seconds: float = 0.0) -> Any:
    await asyncio.sleep(seconds)
    return WORLD.do(id)


def test_async_semel(store_url: str) -> None:
    async def main() -> None:
        async with AsyncSemel(store_url) as app:
            handle = await app.start(flow, 2, key="k")
            assert await handle.result(timeout=20) == 8
            assert (await app.start(flow, 2, key="k")).attached
            assert await (await app.run(handle.id)).result() == 8
            assert await handle.state() == "done"
            assert await send("1") == await send("1") == {"number": 1}
            found = await app.find(send, "1")
            assert found is not None and found["state"] == "done"
            other = await app.start(waits)
            assert await other.signal("go", 7, id="a")
            assert not await other.signal("go", 7, id="a")
            assert await other.result(timeout=20) == 7
        with pytest.raises(SemelError):
            await send("2")

    asyncio.run(main())


def test_steps_of_an_async_semel_run_in_its_event_loop(sqlite_url: str) -> None:
    async def main() -> None:
        here = asyncio.get_running_loop()

        async def where() -> bool:
            return asyncio.get_running_loop() is here

        @workflow(name="where")
        async def flow(ctx: WorkflowContext) -> bool:
            return await ctx.step(where)

        async with AsyncSemel(sqlite_url) as app:
            assert await (await app.start(flow)).result(timeout=20)

    asyncio.run(main())


def test_an_async_semel_that_is_opened_by_many_at_once_is_opened_once(sqlite_url: str) -> None:
    async def main() -> list[Any]:
        app = AsyncSemel(sqlite_url)
        opened: list[Any] = []

        async def use() -> None:
            await app.open()
            opened.append(app.native)

        await asyncio.gather(*(use() for _ in range(4)))
        assert all(native is opened[0] for native in opened)
        handles = await asyncio.gather(*(app.start(flow, x) for x in range(8)))
        try:
            return [await handle.result(timeout=10) for handle in handles]
        finally:
            await app.close()

    assert asyncio.run(main()) == [x * 4 for x in range(8)]


@effect("where", key="{id}")
def where(id: str) -> str:
    return semel.intent().namespace


@workflow
async def asks_where(ctx: WorkflowContext, id: str) -> str:
    return await ctx.step("ask", lambda: where(id))


def test_two_async_semels_in_one_event_loop_keep_their_runs_apart(sqlite_url: str) -> None:
    async def main() -> list[str]:
        async with AsyncSemel(sqlite_url, "red") as red, AsyncSemel(sqlite_url, "blue") as blue:
            handles = [await red.start(asks_where, "1"), await blue.start(asks_where, "1")]
            handles += [await red.start(asks_where, "2"), await blue.start(asks_where, "2")]
            return [await handle.result(timeout=10) for handle in handles]

    assert asyncio.run(main()) == ["red", "blue", "red", "blue"]


def test_waiting_in_vain_is_told_from_a_timeout_of_the_workflow(sqlite_url: str) -> None:
    async def main() -> None:
        async with AsyncSemel(sqlite_url) as app:
            with pytest.raises(TimedOut, match="within"):
                await (await app.start(waits)).result(timeout=0.05)
            with pytest.raises(TimeoutError, match="of the workflow itself") as caught:
                await (await app.start(too_slow)).result(timeout=20)
            assert not isinstance(caught.value, TimedOut)

    asyncio.run(main())


def test_a_cancelled_caller_does_not_cut_the_attempt(app: Semel) -> None:
    async def main() -> Any:
        caller = asyncio.create_task(send("1", 0.3))
        await asyncio.sleep(0.1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not WORLD.calls
        return await send("1", 0.3)

    assert asyncio.run(main()) == {"number": 1}
    assert len(WORLD) == 1


def test_a_caller_that_is_cancelled_at_once_leaves_nothing_behind(app: Semel) -> None:
    async def main() -> None:
        for number in range(50):
            caller = asyncio.create_task(send(str(number)))
            await asyncio.sleep(0)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
        await asyncio.gather(*(send(str(number)) for number in range(50)))

    asyncio.run(main())
    assert sorted(WORLD.calls, key=int) == [str(number) for number in range(50)]


def test_an_event_loop_that_ends_under_an_effect_leaves_a_doubt(app: Semel) -> None:
    async def main() -> None:
        task = asyncio.create_task(send("1", 30))
        await asyncio.sleep(0.2)
        assert not task.done()

    asyncio.run(main())
    until(lambda: (app.find(send, "1") or {}).get("state") == "in_doubt")
    with pytest.raises(InDoubt):
        asyncio.run(send("1", 30))
    assert not WORLD.calls


def test_an_event_loop_that_is_closed_under_an_effect_leaves_a_doubt(app: Semel) -> None:
    @effect("abandoned", key="{id}", deadline="1s", lease="1s")
    async def abandoned(id: str) -> Any:
        await asyncio.sleep(30)

    loop = asyncio.new_event_loop()
    task = loop.create_task(abandoned("1"))
    loop.run_until_complete(asyncio.sleep(0.2))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    del loop, task
    gc.collect()
    until(lambda: (app.find(abandoned, "1") or {}).get("state") == "in_doubt", timeout=15)


def test_uvloop(sqlite_url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        async with AsyncSemel(sqlite_url) as app:
            assert await (await app.start(flow, 2)).result(timeout=20) == 8
            assert await asyncio.gather(send("1"), send("1")) == [{"number": 1}] * 2

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_several_event_loops_use_one_semel(app: Semel) -> None:
    async def main(place: int) -> list[Any]:
        mine = asyncio.gather(*(send(f"{place}-{x}", 0.01) for x in range(5)))
        shared = asyncio.gather(*(send("shared", 0.05) for _ in range(5)))
        return [await mine, await shared]

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda place: asyncio.run(main(place)), range(4)))
    assert len({str(shared) for _, shared in done}) == 1
    assert len(WORLD) == 4 * 5 + 1


def test_a_deadline_aborts_an_async_effect(app: Semel) -> None:
    seen: list[str] = []

    @effect("slow", key="{id}", deadline="300ms", lease="1s")
    async def slow(id: str) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled inside")
            raise

    async def main() -> None:
        began = time.monotonic()
        with pytest.raises(InDoubt):
            await slow("1")
        assert time.monotonic() - began < 10
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert seen == ["cancelled inside"]


def test_a_sync_effect_past_its_deadline_files_its_receipt_late(app: Semel) -> None:
    @effect("slow", key="{id}", deadline="200ms", lease="1s")
    def slow(id: str) -> Any:
        time.sleep(1)
        return WORLD.do(id)

    with contextlib.suppress(InDoubt):
        assert slow("1") == {"number": 1}
    assert len(WORLD) == 1
    try:
        assert slow("1") == {"number": 1}
    except InDoubt:
        assert (app.find(slow, "1") or {})["state"] == "in_doubt"
    assert len(WORLD) == 1, "whatever is known of it, it is not sent twice"


INTERRUPTED = """
import os, sys, time, json
from semel import *

app = Semel(os.environ["STORE"])

@effect("slow", key="{id}")
def slow(id: str) -> None:
    print("inside", flush=True)
    time.sleep(30)

@workflow
async def waits(ctx: WorkflowContext) -> None:
    await ctx.wait_for_signal("go")

try:
    if sys.argv[1] == "effect":
        slow("1")
    else:
        handle = app.start(waits)
        print("inside", flush=True)
        handle.result()
except KeyboardInterrupt:
    if sys.argv[1] == "effect":
        until = time.monotonic() + 4
        while (state := app.find(slow, "1")["state"]) == "pending" and time.monotonic() < until:
            time.sleep(0.02)
        print(state, flush=True)
    else:
        print(handle.state, flush=True)
"""


@pytest.mark.parametrize(("what", "state"), [("effect", "in_doubt"), ("run", "waiting")])
def test_ctrl_c_ends_a_blocking_call(script: Script, what: str, state: str) -> None:
    program = script.write("interrupted.py", INTERRUPTED)
    process = script.start(program, what)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    time.sleep(0.7)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert out.strip() == state
    assert time.monotonic() - began < 5
    assert "Traceback" not in err
