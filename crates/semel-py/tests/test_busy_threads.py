"""All threads are busy and the connections are cut: what waited for a thread is sent once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from conftest import until
from postgres_kit import Ledger
from postgres_server import postgres_server
from semel import Semel, Worker, WorkflowContext, effect, function, probe, workflow
from semel._threads import THREADS_MAX

SENDS: list[str] = []
STARTED: list[int] = []
GATE = threading.Event()
_lock = threading.Lock()


@function
def busy(number: int) -> None:
    """Blocks the thread of whoever comes first."""
    with _lock:
        is_first = number not in STARTED
        STARTED.append(number)
    if is_first:
        assert GATE.wait(60)


def look(id: str) -> str | None:
    """Finds what was sent."""
    return id if id in SENDS else None


@effect("queued", key="{id}", contract=probe(look), settle_window="100ms", lease="1s")
def send(id: str) -> str:
    """Happens outside."""
    SENDS.append(id)
    return id


@workflow
async def blocks(ctx: WorkflowContext, number: int) -> None:
    """One busy thread."""
    await ctx.step(busy, number)


@workflow
async def sends(ctx: WorkflowContext) -> str:
    """One effect that waits for a thread."""
    return await ctx.step(send, "1")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger of its own."""
    for seen in (SENDS, STARTED):
        seen.clear()  # type: ignore[attr-defined]
    GATE.clear()
    made = Ledger()
    yield made
    GATE.set()
    made.drop()


class Cut:
    """Ends the connections of one process again and again."""

    def __init__(self, name: str) -> None:
        self._name, self._over = name, threading.Event()
        self._thread = threading.Thread(target=self._cut)

    def _cut(self) -> None:
        text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        with psycopg.connect(postgres_server(), autocommit=True) as connection:
            while not self._over.wait(0.02):
                connection.execute(text, [self._name])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _offered(url: str) -> tuple[Semel, Worker]:
    app = Semel(url)
    worker = Worker(app, workflows=[blocks, sends], lease="1s")
    worker.start()
    return app, worker


def test_req_o8_an_effect_that_waited_for_a_thread_is_not_sent_by_two_workers(
    ledger: Ledger,
) -> None:
    first, _ = _offered(f"{ledger.url}&application_name={ledger.schema}-first")
    runs: list[Any] = [
        first.start(blocks, number, key=str(number)) for number in range(THREADS_MAX)
    ]
    until(lambda: len(STARTED) == THREADS_MAX, timeout=40)
    runs.append(first.start(sends, key="queued"))
    with Cut(f"{ledger.schema}-first"):
        second, _ = _offered(f"{ledger.url}&application_name={ledger.schema}-second")
        queued = until(lambda: second.run(runs[-1].id))
        assert queued.result(timeout=60) == "1"
        assert SENDS == ["1"]
    GATE.set()
    for run in runs:
        run.result(timeout=60)
    first.close()
    second.close()
    assert SENDS == ["1"]
