"""A function begins while its permit lasts, or not at all: in each thread and event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import until
from semel import (
    AsyncSemel,
    NotApplied,
    Retry,
    RunCancelled,
    Semel,
    Worker,
    WorkflowContext,
    effect,
    function,
    probe,
    workflow,
)
from semel._threads import THREADS_MAX
from semel._work import LookWork, SendWork

WAIT_S = 30
SENDS: list[str] = []
LOOKS: list[str] = []
GATE = threading.Event()
OPTIONS: dict[str, Any] = {
    "key": "{id}",
    "deadline": "400ms",
    "retries": Retry(attempts=40, first="10ms", longest="20ms"),
}


def seen(id: str) -> str | None:
    """Looks; there is nothing."""
    LOOKS.append(id)
    return None


@effect("late-sync", **OPTIONS)
def send(id: str) -> int:
    """Happens outside."""
    SENDS.append(id)
    return len(SENDS)


@effect("late-async", **OPTIONS)
async def send_async(id: str) -> int:
    """Happens outside, on the event loop."""
    SENDS.append(id)
    return len(SENDS)


@effect("late-look", **OPTIONS, contract=probe(seen, first=True), settle_window="50ms")
def send_looked(id: str) -> int:
    """Happens outside, after a look."""
    SENDS.append(id)
    return len(SENDS)


@effect("late-undo", **OPTIONS)
def undo(receipt: str, id: str) -> str:
    """Takes back."""
    SENDS.append(f"undo {id}")
    return "undone"


@effect("undoable", key="{id}", compensate_with=undo)
def undoable(id: str) -> str:
    """Is taken back."""
    return id


@workflow
async def sends(ctx: WorkflowContext) -> int:
    """One effect in a thread."""
    return await ctx.step(send, "1")


@workflow
async def sends_async(ctx: WorkflowContext) -> int:
    """One effect on the event loop."""
    return await ctx.step(send_async, "1")


@workflow
async def is_cancelled(ctx: WorkflowContext) -> None:
    """Is taken back."""
    await ctx.step(undoable, "1")
    await ctx.wait_for_signal("never")


class Late:
    """Whoever gets the first attempt of a function is held up until its permit is over."""

    def __init__(self, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app: Any = None
        self.held: list[str] = []
        context = kind.context

        def late(work: Any, argument: Any) -> Any:
            name = f"{argument.action}/{argument.key}"
            if name.startswith("late-") and name not in self.held:
                self.held.append(name)
                until(lambda: name not in [open for open, _ in self.app.native.open_attempts()])
            return context(work, argument)

        monkeypatch.setattr(kind, "context", late)


@contextmanager
def opened(url: str) -> Iterator[Semel]:
    """A Semel of the test's own."""
    with Semel(url) as app:
        yield app
    app.close()


@pytest.fixture(autouse=True)
def anew() -> None:
    SENDS.clear()
    LOOKS.clear()
    GATE.clear()


def _attempts(app: Semel, action: Any) -> list[dict[str, Any]]:
    found = app.find(action, "1")
    assert found is not None
    return list(found["attempts"])


def _refused_once(app: Semel, action: Any) -> None:
    first, *others = _attempts(app, action)
    assert "permit_lapsed" in str(first), first
    assert others


def _by_run(code: Any) -> Callable[[Semel], Any]:
    return lambda app: app.start(code, key="1").result(timeout=WAIT_S)


CALLS: dict[str, tuple[Any, Callable[[Semel], Any]]] = {
    "blocking call": (send, lambda app: send("1")),
    "run, thread": (send, _by_run(sends)),
    "run, event loop": (send_async, _by_run(sends_async)),
}


@pytest.mark.parametrize("way", CALLS)
def test_req_o8_a_send_that_comes_late_to_its_thread_is_not_begun(
    store_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    action, call = CALLS[way]
    late = Late(SendWork, monkeypatch)
    with opened(store_url) as app:
        late.app = app
        call(app)
        assert late.held, "nobody was late"
        assert SENDS == ["1"]
        _refused_once(app, action)


def test_req_o8_a_send_that_waits_for_a_blocked_event_loop_is_not_begun_late(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(SendWork, monkeypatch)

    async def main() -> Any:
        async with AsyncSemel(sqlite_url) as app:
            late.app = app
            await send_async("1")
            return await app.find(send_async, "1")

    found = asyncio.run(main())
    assert late.held and SENDS == ["1"]
    assert "permit_lapsed" in str(found["attempts"][0])


def test_req_o8_a_look_that_comes_late_asks_nothing(
    app: Semel, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(LookWork, monkeypatch)
    late.app = app
    assert send_looked("1") == 1
    assert late.held and SENDS == ["1"]
    looks = [one for one in _attempts(app, send_looked) if one["kind"] == "look"]
    assert len(looks) > len(LOOKS) >= 1


def test_req_o8_an_undo_that_comes_late_is_not_begun(
    app: Semel, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(SendWork, monkeypatch)
    late.app = app
    run = app.start(is_cancelled, key="1")
    until(lambda: (app.find(undoable, "1") or {}).get("state") == "done")
    run.cancel("as planned")
    with pytest.raises(RunCancelled):
        run.result(timeout=WAIT_S)
    assert late.held and SENDS == ["undo 1"]
    _refused_once(app, undo)


def test_req_o8_a_handler_that_comes_late_to_its_thread_sends_once(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(sqlite_url) as app:

        @effect("late-handled", key="{id}", retries=0, deadline="400ms")
        def refused(id: str) -> int:
            raise NotApplied("not yet")

        with pytest.raises(NotApplied):
            refused("1")

        @effect("late-handled", **OPTIONS)
        def handled(id: str) -> int:
            SENDS.append(id)
            return 1

        late = Late(SendWork, monkeypatch)
        late.app = Semel(sqlite_url)
        worker = Worker(late.app, effects=[handled])
        worker.start()
        until(lambda: (app.find(handled, "1") or {}).get("state") == "done")
        worker.stop()
        worker.run()
        assert late.held and SENDS == ["1"]


@function
def hold() -> None:
    """Keeps a thread."""
    GATE.wait(WAIT_S)


@workflow
async def holds(ctx: WorkflowContext) -> None:
    """Keeps every thread there is."""
    await ctx.gather(*(ctx.step(hold) for _ in range(THREADS_MAX)))


def test_req_o8_nothing_is_armed_while_all_threads_are_busy(sqlite_url: str) -> None:
    with opened(sqlite_url) as app:
        holding = app.start(holds, key="1")
        busy = "semel-step"
        until(
            lambda: (
                sum(thread.name.startswith(busy) for thread in threading.enumerate()) >= THREADS_MAX
            )
        )
        run = app.start(sends, key="1")
        until(lambda: app.native.runs_held() == 2)
        time.sleep(0.2)  # nothing is to happen
        assert app.find(send, "1") is None, "an attempt was armed that nobody can begin"
        GATE.set()
        holding.result(timeout=WAIT_S)
        assert run.result(timeout=WAIT_S) == 1
        assert SENDS == ["1"]


@effect("late-lambda", **OPTIONS)
def returns_coroutine(id: str) -> Any:
    """Gives something to await after all."""
    return send_later(id)


async def send_later(id: str) -> int:
    """Happens outside."""
    SENDS.append(id)
    return 1


@workflow
async def sends_later(ctx: WorkflowContext) -> int:
    """One effect that is a plain function, and yet to await."""
    return int(await ctx.step(returns_coroutine, "1"))


def test_a_plain_function_may_give_something_to_await(app: Semel) -> None:
    assert app.start(sends_later, key="1").result(timeout=WAIT_S) == 1
    assert SENDS == ["1"]
