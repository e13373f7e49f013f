"""A key that changes between two lives of one step is stopped before anything is sent."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from semel import Semel, WorkflowContext, effect, workflow


def test_req_k15_a_key_that_changes_between_attempts_of_a_step_is_never_sent(app: Semel) -> None:
    sent: list[str] = []
    drawn = itertools.count(1)
    is_parked = threading.Event()

    @effect("mail", key="{key}")
    def mail(key: str) -> str:
        sent.append(key)
        is_parked.set()
        raise ConnectionResetError("cut after the send")  # in doubt: the run parks

    @workflow
    async def w(ctx: WorkflowContext) -> str:
        # Drawn anew whenever the code runs, as a time or a random id would be.
        return await ctx.step(mail, f"k-{next(drawn)}")

    run = app.start(w, key="event")
    assert is_parked.wait(20)
    until(lambda: run.state == "waiting")
    assert sent == ["k-1"]
    run.signal("anything", id="wakes it")
    until(lambda: run.state == "paused")
    assert run.status()["paused"]["code"] == "unstable_key"
    assert sent == ["k-1"]
    assert app.find(mail, "k-2") is None


def until(is_so: Callable[[], bool], patience: float = 20) -> None:
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
