"""Sleeps, signals, and work that is done side by side."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import semel
from conftest import Script, World, until
from pydantic import BaseModel
from semel import (
    RunFailed,
    RunPaused,
    Semel,
    Signal,
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


class Approval(BaseModel):
    by: str
    ok: bool


@workflow
async def approval(ctx: WorkflowContext) -> list[Any]:
    signal = await ctx.wait_for_signal("approved", timeout="1h", metadata={"who": "finance"})
    return [type(signal).__name__, signal.payload, signal.by, signal["ok"]]


@workflow
async def typed_approval(ctx: WorkflowContext) -> str:
    found = await ctx.wait_for_signal("approved", type=Approval)
    return f"{type(found).__name__} {found.by} {found.ok}"


def test_a_signal_that_comes_late(any_app: Semel) -> None:
    handle = any_app.start(approval)
    until(lambda: handle.state == "waiting")
    assert handle.signal("approved", {"by": "ann", "ok": True})
    assert handle.result(timeout=20) == ["Signal", {"by": "ann", "ok": True}, "ann", True]


def test_a_signal_that_comes_early(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start("approval")
    assert handle.signal("approved", {"by": "ann", "ok": False})
    time.sleep(0.1)
    assert handle.state == "ready"
    app.offer(approval)
    assert handle.result(timeout=20)[1] == {"by": "ann", "ok": False}
    app.close()


def test_a_delivery_that_comes_twice_is_one(any_app: Semel) -> None:
    @workflow(name="two")
    async def two(ctx: WorkflowContext) -> list[Any]:
        first = await ctx.wait_for_signal("go")
        try:
            second = await ctx.wait_for_signal("go", timeout="300ms")
        except TimeoutError:
            return [first.payload, "no second"]
        return [first.payload, second.payload]

    handle = any_app.start(two)
    answers = [handle.signal("go", 1, id="delivery-1") for _ in range(3)]
    assert answers == [True, False, False]
    assert handle.result(timeout=20) == [1, "no second"]
    other = any_app.start(two)
    assert other.signal("go", 1, id="a")
    assert other.signal("go", 2, id="b")
    assert other.result(timeout=20) == [1, 2]


def test_a_signal_as_a_type(app: Semel) -> None:
    handle = app.start(typed_approval)
    handle.signal("approved", Approval(by="bob", ok=True))
    assert handle.result(timeout=20) == "Approval bob True"
    wrong = app.start(typed_approval)
    wrong.signal("approved", {"by": "bob"})
    until(lambda: wrong.state == "paused")
    assert wrong.status()["paused"]["code"] == "receipt_mismatch"


def test_no_signal_in_time(app: Semel) -> None:
    @workflow(name="impatient")
    async def impatient(ctx: WorkflowContext) -> str:
        try:
            await ctx.wait_for_signal("never", timeout=0.05)
        except TimedOut as late:
            return f"{late.code} {isinstance(late, TimeoutError)}"
        return "came"

    assert app.start(impatient).result(timeout=20) == "timed_out True"


def test_a_payload_of_no_members(app: Semel) -> None:
    @workflow(name="plain")
    async def plain(ctx: WorkflowContext) -> list[Any]:
        signal = await ctx.wait_for_signal("go")
        with pytest.raises(AttributeError, match="nothing"):
            _ = signal.nothing
        return [signal.payload, signal.signal_name]

    for payload in (None, False, 0, [1, 2], "text", {"name": "mine"}):
        handle = app.start(plain)
        handle.signal("go", payload)
        assert handle.result(timeout=20) == [payload, "go"]


def test_a_signal_can_be_copied() -> None:
    import copy

    signal = Signal("go", {"a": 1})
    assert copy.deepcopy(signal).a == copy.copy(signal).a == 1


def test_operators_see_what_a_run_waits_for(app: Semel, script: Script, sqlite_url: str) -> None:
    handle = app.start(approval)
    until(lambda: handle.state == "waiting")
    line = ["--store", sqlite_url, "--json", "runs", "show", handle.id]
    done = script.run("-m", "semel", *line)
    assert done.returncode == 0, done.stderr
    assert "approved" in done.stdout
    assert json.dumps({"who": "finance"}).replace(" ", "") in done.stdout.replace(" ", "").replace(
        "\n", ""
    )
    line = ["--store", sqlite_url, "signals", "send", handle.id, "approved"]
    done = script.run("-m", "semel", *line, "--payload", '{"by": "cli", "ok": true}')
    assert done.returncode == 0, done.stderr
    assert handle.result(timeout=20)[2] == "cli"


@effect("publish", key="{id}")
def publish(id: str) -> Any:
    return WORLD.do(semel.intent().key)


@workflow
async def publishes(ctx: WorkflowContext, id: str) -> Any:
    await ctx.wait_for_signal("approved")
    return await ctx.step(publish, id)


def test_nothing_is_sent_before_the_approval(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start(publishes, "post-1", key="post-1")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(sqlite_url)
    handle = app.start(publishes, "post-1", key="post-1")
    assert handle.attached
    assert handle.state == "waiting"
    assert not WORLD.calls, "restarted and started again, it still waits"
    handle.signal("approved", id="click")
    assert handle.result(timeout=20) == {"number": 1}
    app.close()


def test_the_resumed_run_has_the_key_of_its_intent(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start(publishes, "post-1", key="post-1")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(sqlite_url)
    app.offer(publishes)
    again = app.run(handle.id)
    for _ in range(3):
        again.signal("approved", id="click")
    assert again.result(timeout=20) == {"number": 1}
    assert publish("post-1") == {"number": 1}
    assert WORLD.calls == ["post-1"]
    app.close()


@workflow
async def sleeps(ctx: WorkflowContext) -> float:
    before = ctx.now()
    await ctx.sleep("100ms")
    await ctx.sleep(0.1)
    await ctx.sleep(timedelta(milliseconds=100))
    return (ctx.now() - before).total_seconds()


def test_a_run_sleeps_for_as_long_as_it_says(any_app: Semel) -> None:
    assert 0.3 <= any_app.start(sleeps).result(timeout=20) < 5


@workflow(concurrency=1)
async def naps(ctx: WorkflowContext) -> list[float]:
    began = ctx.now().timestamp()
    await ctx.sleep("200ms")
    return [began, ctx.now().timestamp()]


def test_a_sleep_counts_from_when_a_queued_run_asks_for_it(any_app: Semel) -> None:
    handles = [any_app.start(naps, key=str(number)) for number in range(3)]
    spans = sorted(handle.result(timeout=30) for handle in handles)
    assert all(end - began >= 0.2 for began, end in spans)
    assert all(one[1] <= next[0] for one, next in itertools.pairwise(spans)), "one after the other"


@workflow
async def oversleeps(ctx: WorkflowContext) -> str:
    await ctx.step("one", WORLD.do, "one")
    await ctx.sleep("3s")
    return "awake"


def test_a_sleep_goes_on_while_nobody_works(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start(oversleeps, key="k")
    until(lambda: handle.state == "waiting")
    app.close()
    time.sleep(2)
    app = Semel(sqlite_url)
    began = time.monotonic()
    assert app.start(oversleeps, key="k").result(timeout=20) == "awake"
    assert time.monotonic() - began < 2.5, "it has slept most of its time already"
    assert WORLD.calls == ["one"]
    app.close()


class Busy:
    """Counts what is done at once."""

    now, most = 0, 0
    lock = threading.Lock()

    @classmethod
    def work(cls, seconds: float) -> None:
        with cls.lock:
            cls.now += 1
            cls.most = max(cls.most, cls.now)
        time.sleep(seconds)
        with cls.lock:
            cls.now -= 1


@function
def square(item: int) -> int:
    Busy.work(0.01 * (item % 3))
    return item * item


@workflow
async def maps(ctx: WorkflowContext, bound: int) -> list[int]:
    return await ctx.map(square, iter(range(12)), max_concurrency=bound)


@pytest.mark.parametrize("bound", [1, 3, 100])
def test_map_keeps_order_and_bound(app: Semel, bound: int) -> None:
    Busy.most = 0
    assert app.start(maps, bound).result(timeout=30) == [item * item for item in range(12)]
    assert Busy.most <= bound
    assert bound == 1 or Busy.most > 1


@workflow
async def maps_badly(ctx: WorkflowContext) -> list[Any]:
    return await ctx.map(square, [1], max_concurrency=0)


def test_a_bound_of_nothing_is_refused(app: Semel) -> None:
    with pytest.raises(RunPaused, match="max_concurrency"):
        app.start(maps_badly).result(timeout=20)


@function(no_retry=(ValueError,))
async def fails_at(item: int, bad: int = 3) -> int:
    if item == bad:
        raise ValueError(f"item {item}")
    await asyncio.sleep(0.01)
    return item


@workflow
async def map_fails(ctx: WorkflowContext) -> list[int]:
    return await ctx.map(fails_at, range(100), max_concurrency=2)


def test_a_map_ends_with_the_first_exception(app: Semel) -> None:
    with pytest.raises(ValueError, match="item 3"):
        app.start(map_fails).result(timeout=20)


@workflow
async def side_by_side(ctx: WorkflowContext) -> list[Any]:
    both = await ctx.gather(ctx.step(square, 2), ctx.step(square, 3))
    plain = await asyncio.gather(ctx.step(square, 4), ctx.sleep("10ms"), ctx.step(square, 5))
    task = asyncio.create_task(ctx.step(square, 6))
    held = await ctx.gather(ctx.step(fails_at, 3), ctx.step(square, 7), return_exceptions=True)
    return [both, plain, await task, [type(held[0]).__name__, held[1]]]


def test_steps_side_by_side(any_app: Semel) -> None:
    want = [[4, 9], [16, None, 25], 36, ["ValueError", 49]]
    assert any_app.start(side_by_side).result(timeout=20) == want


@workflow
async def queues(ctx: WorkflowContext) -> list[int]:
    """Events, locks and queues of asyncio belong to nobody outside: a body may use them."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    limit = asyncio.Semaphore(1)

    async def produce(item: int) -> None:
        async with limit:
            queue.put_nowait(await ctx.step(square, item))

    tasks = [asyncio.ensure_future(produce(item)) for item in (3, 1, 2)]
    got = [await queue.get() for _ in tasks]
    await asyncio.wait(tasks)
    return got


def test_tools_of_asyncio_that_stay_inside(app: Semel) -> None:
    assert app.start(queues).result(timeout=20) == [9, 1, 4]


if sys.version_info >= (3, 11):

    @workflow
    async def task_group(ctx: WorkflowContext, bad: int) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.step(fails_at, item, bad)) for item in range(4)]
        return [task.result() for task in tasks]

    def test_a_task_group_in_a_body(app: Semel) -> None:
        assert app.start(task_group, 9).result(timeout=20) == [0, 1, 2, 3]

    def test_a_task_group_that_fails(app: Semel) -> None:
        with pytest.raises(RunFailed, match="ExceptionGroup") as caught:
            app.start(task_group, 2).result(timeout=20)
        assert "item 2" in str(caught.value.trace)
