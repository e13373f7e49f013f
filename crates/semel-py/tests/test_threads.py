"""Sync work in threads: begun once or not at all, also when no thread can be had."""

from __future__ import annotations

import threading
import time

import pytest
from conftest import Script, until
from semel import Retry, Semel, WorkflowContext, effect, function, workflow
from semel._threads import Threads

WAIT_S = 10
GATE = threading.Event()
HELD = threading.Event()
SENDS: list[str] = []


@function
def hold() -> None:
    """Keeps the only thread there is."""
    HELD.set()
    GATE.wait(WAIT_S)


@effect("no-thread", key="{id}", retries=Retry(attempts=50, first="20ms", longest="40ms"))
def send(id: str) -> int:
    """Happens outside."""
    SENDS.append(id)
    return len(SENDS)


@workflow
async def holds(ctx: WorkflowContext) -> None:
    """Waits for the gate."""
    await ctx.step(hold)


@workflow
async def sends(ctx: WorkflowContext) -> int:
    """One effect."""
    return await ctx.step(send, "1")


class NoThreads:
    """A system that is out of threads, for us: as at the limit of a container."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_out = False
        start = threading.Thread.start

        def begin(thread: threading.Thread) -> None:
            if self.is_out and thread.name.startswith("semel-step"):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", begin)


def test_an_effect_that_got_no_thread_is_not_sent_later(
    app: Semel, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = NoThreads(monkeypatch)
    GATE.clear()
    HELD.clear()
    SENDS.clear()
    holding = app.start(holds, key="1")
    assert HELD.wait(WAIT_S)
    system.is_out = True
    run = app.start(sends, key="1")
    until(lambda: app.find(send, "1"))
    time.sleep(0.3)  # it is tried several times; each is told that nothing happened
    assert not SENDS
    GATE.set()
    holding.result(timeout=WAIT_S)
    time.sleep(0.2)  # the thread that was busy finds what waited for it
    system.is_out = False
    assert run.result(timeout=WAIT_S) == 1
    assert SENDS == ["1"]


def test_what_is_refused_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    system = NoThreads(monkeypatch)
    threads, done = Threads(), threading.Event()
    begun: list[int] = []
    gate = threading.Event()
    threads.begin(gate.wait)
    system.is_out = True
    with pytest.raises(RuntimeError):
        threads.begin(lambda: begun.append(1))
    system.is_out = False
    gate.set()
    threads.begin(done.set)
    assert done.wait(WAIT_S)
    threads.close()
    assert begun == []


ENDS = """
import os, time
from semel import Semel, function, workflow

app = Semel(os.environ["STORE"])

@function
def long() -> None:
    time.sleep(1.5)

@function(retries=1)
def short() -> None:
    time.sleep(0.05)

@workflow
async def waits(ctx) -> None:
    await ctx.step(long)

@workflow
async def goes_on(ctx) -> None:
    for _ in range(200):
        await ctx.step(short)

app.start(waits, key="1")
print(app.start(goes_on, key="1").id)
time.sleep(0.2)
"""


def test_a_run_does_not_fail_because_its_process_ends(
    app: Semel, script: Script, sqlite_url: str
) -> None:
    # The interpreter waits for the long step, and takes no new work for its threads meanwhile.
    program = script.start(script.write("ends.py", ENDS))
    said, _ = program.communicate(timeout=30)
    assert program.returncode == 0
    status = app.run(said.strip()).status()
    assert status["state"] in ("ready", "running"), status


@function(retries=0, exhausted="fail")
async def interrupts() -> None:
    """As a library does that wants the program to end."""
    raise KeyboardInterrupt


@workflow
async def interrupted(ctx: WorkflowContext) -> None:
    """Its step interrupts."""
    await ctx.step(interrupts)


@workflow
async def interrupts_itself(ctx: WorkflowContext, more: int) -> None:
    """Interrupts."""
    raise KeyboardInterrupt


def test_an_interrupt_raised_by_one_run_ends_no_other(app: Semel) -> None:
    SENDS.clear()
    for more in range(3):
        app.start(interrupts_itself, more, key=str(more))
    with pytest.raises(Exception, match="KeyboardInterrupt"):
        app.start(interrupted, key="1").result(timeout=WAIT_S)
    assert app.start(sends, key="2").result(timeout=WAIT_S) == 1
