"""Exceptions cross the journal: a workflow sees the type that its step raised, also after a
restart; so does whoever waits for the run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Script, World, until
from semel import (
    NotApplied,
    Refused,
    Retry,
    RunFailed,
    RunPaused,
    Semel,
    SemelError,
    StepFailed,
    WorkflowContext,
    effect,
    function,
    workflow,
)

WORLD = World()
AT_ONCE = Retry(attempts=2, first="1ms")


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Declined(Exception):
    """With state that its arguments do not hold."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, code

    def __str__(self) -> str:
        return f"{self.reason} ({self.status})"


class Stubborn(Exception):
    """Cannot be built again: what it holds is no data."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.handle = object()


class Outer:
    class Inner(Exception):
        """Of a class in a class."""


def same(found: BaseException, raised: BaseException) -> None:
    """Asserts that an exception crossed unharmed."""
    assert type(found) is type(raised)
    assert found.args == raised.args
    assert str(found) == str(raised)
    first, second = (
        {name: value for name, value in vars(one).items() if name != "trace"}
        for one in (found, raised)
    )
    assert first == second


REBUILT: list[Exception] = [
    ValueError("wrong"),
    ValueError(),
    ValueError("a", 1, None, [1, {"b": 2}]),
    KeyError("missing"),
    IndexError(3),
    ZeroDivisionError("division by zero"),
    TimeoutError("too slow"),
    StopAsyncIteration("x"),
    AssertionError(),
    ConnectionResetError(104, "reset"),
    Declined("card", 402),
    Outer.Inner("nested"),
    Refused("never"),
    NotApplied("not now"),
    SemelError("of its own", code="store_busy"),
    RuntimeError("halves: \udcff"),
]


@function(retries=0, exhausted="fail")
def raises(number: int) -> None:
    WORLD.do(number)
    raise REBUILT[number]


@function(retries=0, exhausted="fail")
async def raises_later(number: int) -> None:
    raise REBUILT[number]


@workflow
async def catches(ctx: WorkflowContext, number: int) -> list[str]:
    told = []
    for step in (raises, raises_later):
        try:
            await ctx.step(step, number)
        except Exception as error:
            same(error, REBUILT[number])
            told.append(f"{type(error).__name__}: {'raises' in error.trace}")  # type: ignore[attr-defined]
    return told


@workflow
async def lets_go(ctx: WorkflowContext, number: int) -> None:
    await ctx.step(raises, number)


@pytest.mark.parametrize("number", range(len(REBUILT)), ids=lambda at: repr(REBUILT[at])[:40])
def test_a_workflow_and_its_caller_see_what_a_step_raised(app: Semel, number: int) -> None:
    want = f"{type(REBUILT[number]).__name__}: True"
    assert app.start(catches, number).result(timeout=20) == [want, want]
    handle = app.start(lets_go, number)
    for _ in range(2):
        with pytest.raises(type(REBUILT[number])) as caught:
            handle.result(timeout=20)
        same(caught.value, REBUILT[number])
    assert handle.state == "failed"


def test_a_missing_file_is_told_with_its_name(app: Semel) -> None:
    @workflow(name="opens")
    async def opens(ctx: WorkflowContext) -> list[Any]:
        try:
            await ctx.step(_open)
        except FileNotFoundError as error:
            return [error.errno, error.filename, str(error)]
        return []

    number, name, words = app.start(opens).result(timeout=20)
    assert (number, name) == (2, "/no/such/file")
    assert "/no/such/file" in words


@function(retries=0, exhausted="fail")
def _open() -> None:
    Path("/no/such/file").read_text()


@function(retries=0, exhausted="fail")
def raises_stubborn() -> None:
    raise Stubborn("cannot be built again")


@workflow
async def stubborn(ctx: WorkflowContext) -> list[str]:
    try:
        await ctx.step(raises_stubborn)
    except StepFailed as failed:
        return [failed.code, failed.detail, str(failed.trace)]
    return []


def test_what_cannot_be_built_again_is_a_failed_step_with_its_words(app: Semel) -> None:
    code, detail, trace = app.start(stubborn).result(timeout=20)
    assert code in ("step_failed", "retries_exhausted")
    assert "Stubborn: cannot be built again" in detail
    assert "raises_stubborn" in trace


@workflow(on_error="fail")
async def raises_itself(ctx: WorkflowContext, what: str) -> None:
    if what == "stubborn":
        raise Stubborn("in the body")
    if what == "exit":
        raise SystemExit(3)
    if what == "local":

        class Local(Exception):
            pass

        raise Local("only here")
    raise Declined("in the body", 7)


def test_req_v6_what_a_body_raises_is_told(app: Semel) -> None:
    with pytest.raises(Declined) as caught:
        app.start(raises_itself, "declined").result(timeout=20)
    assert (caught.value.reason, caught.value.status) == ("in the body", 7)
    for what in ("stubborn", "local"):
        with pytest.raises(RunFailed) as failed:
            app.start(raises_itself, what).result(timeout=20)
        assert failed.value.code == "run_failed"
        assert "raises_itself" in str(failed.value.trace)


@workflow
async def fine(ctx: WorkflowContext) -> str:
    return await ctx.step("fine", lambda: "fine")


@function(retries=0, exhausted="fail")
async def exits() -> None:
    raise SystemExit(3)


@workflow
async def step_exits(ctx: WorkflowContext) -> None:
    await ctx.step(exits)


def test_an_exit_in_a_step_or_a_body_ends_no_other_run(app: Semel) -> None:
    ended = [app.start(raises_itself, "exit"), app.start(step_exits)]
    time.sleep(0.3)
    assert app.start(fine).result(timeout=10) == "fine"
    for handle in ended:
        with pytest.raises((SemelError, SystemExit)) as caught:
            handle.result(timeout=10)
        assert getattr(caught.value, "code", None) != "timed_out"


@workflow
async def after_a_wait(ctx: WorkflowContext) -> str:
    try:
        await ctx.step(raises, REBUILT.index(DECLINED))
    except Declined as error:
        first = f"{error.reason} {error.status}"
    await ctx.wait_for_signal("go")
    return first


DECLINED = next(error for error in REBUILT if isinstance(error, Declined))


def test_it_is_the_same_in_a_replay(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    handle = app.start(after_a_wait, key="k")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(sqlite_url)
    handle = app.start(after_a_wait, key="k")
    handle.signal("go")
    assert handle.result(timeout=20) == "card 402"
    assert len(WORLD) == 1
    app.close()


@function(retries=5, no_retry=(LookupError,), exhausted="fail")
def picky() -> None:
    WORLD.do()


@workflow
async def uses_picky(ctx: WorkflowContext) -> str:
    try:
        await ctx.step(picky)
    except KeyError as error:
        return f"{error}"
    return "fine"


def test_no_retry_goes_to_the_workflow_at_once(app: Semel) -> None:
    WORLD.answers = [KeyError("gone")]
    assert app.start(uses_picky).result(timeout=20) == "'gone'"
    assert len(WORLD) == 1


@function(retries=AT_ONCE)
def shaky() -> str:
    return str(WORLD.do())


@workflow
async def uses_shaky(ctx: WorkflowContext) -> str:
    return await ctx.step(shaky)


@workflow(name="fails-fast", exhausted="fail")
async def fails_fast(ctx: WorkflowContext) -> str:
    return await ctx.step(shaky)


def test_a_step_is_tried_again(app: Semel) -> None:
    WORLD.answers = [OSError("once"), "fine"]
    assert app.start(uses_shaky).result(timeout=20) == "fine"


@pytest.mark.parametrize("way", ["retry", "skip"])
def test_a_run_that_stands_still_is_moved_by_a_person(any_app: Semel, way: str) -> None:
    WORLD.answers = [OSError("one"), OSError("two"), "third"]
    handle = any_app.start(uses_shaky)
    with pytest.raises(RunPaused, match="two") as caught:
        handle.result(timeout=20)
    assert caught.value.code == "run_paused"
    assert handle.state == "paused"
    assert len(WORLD) == 2
    if way == "retry":
        handle.retry(reason="the network is back", actor="ann")
        assert handle.result(timeout=20) == "third"
    else:
        handle.skip("shaky#0", "by hand", reason="did it myself", actor="ann")
        assert handle.result(timeout=20) == "by hand"


def test_exhausted_may_fail_the_run(app: Semel) -> None:
    WORLD.answers = [OSError(5, "one"), OSError(5, "two")]
    with pytest.raises(OSError, match="two"):
        app.start(fails_fast).result(timeout=20)


@effect("refuse", key="{id}")
def refuse(id: str) -> None:
    raise Refused("no such customer")


@workflow
async def uses_refused(ctx: WorkflowContext) -> str:
    try:
        await ctx.step(refuse, "1")
    except Refused as error:
        return error.detail
    return "fine"


def test_a_refused_effect_reaches_the_workflow(app: Semel) -> None:
    assert "no such customer" in app.start(uses_refused).result(timeout=20)


def test_operators_see_the_trace(app: Semel, script: Script, sqlite_url: str) -> None:
    WORLD.answers = [Declined("one", 1), Declined("two", 2)]
    handle = app.start(uses_shaky)
    with pytest.raises(RunPaused):
        handle.result(timeout=20)
    for json_wanted in (False, True):
        words = ["--json"] if json_wanted else []
        done = script.run("-m", "semel", "--store", sqlite_url, *words, "runs", "show", handle.id)
        assert done.returncode == 0, done.stderr
        assert "Declined: two (2)" in done.stdout
        assert "shaky" in done.stdout
        assert "Traceback" in done.stdout
        if json_wanted:
            json.loads(done.stdout)
