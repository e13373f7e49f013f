"""The code of a run does the same in every replay, and is held to it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Site, World, until
from semel import (
    ForeignAwait,
    RunPaused,
    Semel,
    SemelError,
    StepContext,
    WorkflowContext,
    effect,
    model,
    workflow,
)

WORLD = World()
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()
    SEEN.clear()


async def _httpx() -> None:
    import httpx

    async with httpx.AsyncClient() as client:
        await client.get(SEEN[0])


async def _stream() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def _future() -> None:
    await asyncio.get_running_loop().create_future()


async def _sock() -> None:
    with socket.socket() as one:
        one.setblocking(False)
        await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", 1))


async def _thread_answers() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def answer() -> None:
        with contextlib.suppress(ForeignAwait):
            loop.call_soon_threadsafe(future.set_result, 1)

    threading.Timer(0.01, answer).start()
    await future


FOREIGN: dict[str, Callable[[], Any]] = {
    "sleep": lambda: asyncio.sleep(0.01),
    "to_thread": lambda: asyncio.to_thread(time.sleep, 0),
    "timeout": lambda: asyncio.wait_for(asyncio.ensure_future(asyncio.sleep(0)), 1),
    "subprocess": lambda: asyncio.create_subprocess_exec("true"),
    "getaddrinfo": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    "event": lambda: asyncio.Event().wait(),
    "stream": _stream,
    "sock": _sock,
    "future": _future,
    "httpx": _httpx,
    "thread": _thread_answers,
}


@workflow
async def foreign(ctx: WorkflowContext, what: str, first: bool) -> str:
    if first:
        await ctx.step("before", lambda: 1)
    try:
        await FOREIGN[what]()
    except Exception as error:
        SEEN.append(error)
    await ctx.step("after", WORLD.do, "after")
    return "went on"


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_body_waits_for_nothing_foreign(app: Semel, site: Site, what: str, first: bool) -> None:
    SEEN.append(f"{site.url}/")
    handle = app.start(foreign, what, first)
    with pytest.raises(RunPaused, match="foreign_await"):
        handle.result(timeout=10)
    assert handle.state == "paused"
    assert not WORLD.calls, "what comes after is not done"
    assert not site.requests


@effect("direct", key="{id}")
def direct(id: str) -> Any:
    return WORLD.do(id)


@effect("direct-later", key="{id}")
async def direct_later(id: str) -> Any:
    return WORLD.do(id)


@workflow
async def calls_directly(ctx: WorkflowContext, later: bool) -> Any:
    return await direct_later("1") if later else direct("1")


@workflow
async def uses_app(ctx: WorkflowContext) -> Any:
    return APPS[0].find("direct", "1")


APPS: list[Semel] = []


@pytest.mark.parametrize("later", [False, True])
def test_an_effect_without_its_step_is_refused(app: Semel, later: bool) -> None:
    handle = app.start(calls_directly, later)
    with pytest.raises(SemelError) as caught:
        handle.result(timeout=10)
    assert "foreign_await" in str(caught.value) or caught.value.code == "foreign_await"
    assert "ctx.step" in str(caught.value)
    assert not WORLD.calls
    assert handle.state == "paused", "a mistake in the code ends no run for good"


def test_a_body_that_asks_the_ledger_itself_is_refused(app: Semel) -> None:
    APPS[:] = [app]
    handle = app.start(uses_app)
    with pytest.raises(RunPaused, match="foreign_await"):
        handle.result(timeout=10)


def test_an_effect_in_a_step_goes_through_the_ledger(app: Semel) -> None:
    @workflow(name="in_a_step")
    async def in_a_step(ctx: WorkflowContext) -> list[Any]:
        return [
            await ctx.step("sync", lambda: direct("1")),
            await ctx.step("async", lambda: direct_later("1")),
        ]

    assert app.start(in_a_step).result(timeout=20) == [{"number": 1}, {"number": 2}]
    assert app.start(in_a_step).result(timeout=20) == [{"number": 1}, {"number": 2}]
    assert len(WORLD) == 2


@effect("with-context", key="{id}")
async def with_context(ctx: StepContext, id: str) -> list[Any]:
    return [ctx.run_id, ctx.attempt, id]


@workflow
async def gives_context(ctx: WorkflowContext) -> list[Any]:
    return [ctx.run_id, await ctx.step(with_context, "1")]


def test_an_effect_may_take_the_context_of_its_run(app: Semel) -> None:
    run_id, receipt = app.start(gives_context).result(timeout=20)
    assert receipt == [run_id, 1, "1"]
    again = app.start(gives_context).result(timeout=20)
    assert again[1] == receipt, "another run gets the first receipt"
    assert again[0] != run_id


@workflow
async def draws(ctx: WorkflowContext) -> list[str]:
    drawn = [str(one) for one in (ctx.now(), ctx.random(), ctx.uuid(), ctx.random(), ctx.uuid())]
    await ctx.step("step", lambda: 1)
    drawn += [str(ctx.now()), str(ctx.uuid()), ctx.run_id, ctx.key]
    SEEN.append((list(drawn), ctx.is_replaying))
    ctx.logger.warning("before the wait in %s", ctx.key)
    await ctx.wait_for_signal("go")
    ctx.logger.warning("after the wait")
    return drawn


def test_req_s4_a_replay_draws_the_same(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Semel(sqlite_url)
    handle = app.start(draws, key="k")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(sqlite_url)
    handle = app.start(draws, key="k")
    handle.signal("go")
    result = handle.result(timeout=20)
    app.close()
    assert len(SEEN) >= 2, "it was replayed"
    assert all(drawn == result for drawn, _ in SEEN)
    assert len(set(result[1:5])) == 4, "each draw is another one"
    assert 0 <= float(result[1]) < 1
    assert (result[-2], result[-1]) == (handle.id, "k")
    said = [record.getMessage() for record in caplog.records if "semel.workflow" in record.name]
    assert said == ["before the wait in k", "after the wait"], "the logger is silent in a replay"
    assert caplog.records[-1].run_id == handle.id  # type: ignore[attr-defined]


def _version(number: int) -> Any:
    @workflow(name="changes")
    async def changes(ctx: WorkflowContext) -> str:
        if number in (1, 3):
            await ctx.step("reserve", WORLD.do, "reserve")
        await ctx.wait_for_signal("go")
        return str(await ctx.step("charge", WORLD.do, "charge"))

    return changes


def test_a_change_of_the_code_that_matters_pauses_the_run(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start(_version(1), key="k")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(sqlite_url)
    handle = app.start(_version(2), key="k")
    handle.signal("go")
    with pytest.raises(RunPaused, match="reserve") as caught:
        handle.result(timeout=20)
    assert "diverged" in str(caught.value)
    assert WORLD.calls == ["reserve"], "nothing is sent by code that does not fit"
    app.close()
    app = Semel(sqlite_url)
    handle = app.start(_version(3), key="k")
    handle.retry(reason="put back")
    assert handle.result(timeout=20) == "{'number': 2}"
    app.close()


@workflow
async def cleans_up(ctx: WorkflowContext) -> str:
    async def wait() -> None:
        try:
            await ctx.wait_for_signal("go")
        finally:
            SEEN.append("inner")

    try:
        await ctx.gather(wait(), ctx.sleep("10ms"))
        return "went"
    finally:
        SEEN.append("outer")
        try:
            direct("at the end")
        except ForeignAwait:
            SEEN.append("refused")
        await ctx.step("clean up", WORLD.do, "cleaned up")


@pytest.fixture
def no_garbage() -> None:
    """Collects what earlier tests left, so that a warning in this test is about this test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.mark.filterwarnings("error")
def test_a_body_that_is_put_away_reaches_nothing_outside(sqlite_url: str, no_garbage: None) -> None:
    app = Semel(sqlite_url)
    handle = app.start(cleans_up, key="k")
    until(lambda: handle.state == "waiting")
    app.close()
    gc.collect()
    assert not WORLD.calls, "it only waits: nothing of it has ended"
    assert sorted(SEEN) == ["inner", "outer", "refused"], "Python ends what is put away, once"


def test_two_workflows_of_one_name_are_refused(app: Semel) -> None:
    app.start(_version(1))
    with pytest.raises(SemelError) as caught:
        app.start(_version(2))
    assert caught.value.code == "name_invalid"


def test_the_codes_of_a_refusal_are_its_own() -> None:
    assert ForeignAwait("x").code == "foreign_await"


def test_a_method_that_asks_a_model_is_asked_for_each_object(app: Semel) -> None:
    class Mind:
        def __init__(self, name: str) -> None:
            self.name = name

        @model
        async def ask(self, question: str) -> str:
            return f"{self.name}: {question}"

    one, two = Mind("one"), Mind("two")

    @workflow(name="minds")
    async def minds(ctx: WorkflowContext) -> list[str]:
        return [await ctx.step(one.ask, "why"), await ctx.step(two.ask, "why")]

    assert app.start(minds).result(timeout=20) == ["one: why", "two: why"]
