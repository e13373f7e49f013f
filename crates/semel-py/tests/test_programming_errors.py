"""Programming errors are never retried: by any caller, run, handler or look."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import semel.httpx
from conftest import World, until
from postgres_kit import Ledger
from semel import (
    Held,
    InDoubt,
    Retry,
    RunPaused,
    Semel,
    SemelError,
    Worker,
    WorkflowContext,
    approval,
    at_most_once,
    effect,
    function,
    harmless,
    model,
    native_key,
    probe,
    workflow,
)
from stand_ins import Provider

WORLD = World()
MANY = Retry(attempts=9, first="1ms", longest="1ms", total="1h")
BROKEN = {"is": True}


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()
    BROKEN["is"] = True


def slip() -> None:
    """A slip in the code, until it is corrected."""
    if BROKEN["is"]:
        raise NameError("name 'amuont' is not defined")


@effect("send", key="{id}", contract=at_most_once, retries=MANY)
def send(id: str) -> Any:
    number = WORLD.do(id)
    slip()
    return number


@workflow
async def sends(ctx: WorkflowContext, id: str) -> Any:
    return await ctx.step(send, id)


def test_req_r10_a_direct_caller_gets_the_error_at_once_and_corrected_code_goes_on(
    any_app: Semel,
) -> None:
    with pytest.raises(SemelError, match="NameError: name 'amuont'") as told:
        send("1")
    assert (told.value.code, len(WORLD)) == ("programming_error", 1)
    assert isinstance(told.value.__cause__, NameError), "V6: the author's exception is shown"
    BROKEN["is"] = False
    assert send("1") == {"number": 2}


def test_req_r10_an_async_caller_gets_the_error_at_once(app: Semel) -> None:
    @effect("later", key="{id}", retries=MANY)
    async def later(id: str) -> None:
        WORLD.do(id)
        slip()

    with pytest.raises(SemelError) as told:
        asyncio.run(later("1"))
    assert (told.value.code, len(WORLD)) == ("programming_error", 1)
    assert isinstance(told.value.__cause__, NameError)


def test_req_r10_a_run_pauses_at_once_and_a_retry_goes_on(any_app: Semel) -> None:
    handle = any_app.start(sends, "1", key="1")
    with pytest.raises(RunPaused, match="NameError: name 'amuont'"):
        handle.result(timeout=20)
    assert len(WORLD) == 1
    BROKEN["is"] = False
    handle.retry(reason="corrected")
    assert handle.result(timeout=20) == {"number": 2}


@pytest.mark.parametrize("kind", ["sync", "async", "model"])
def test_req_r10_a_step_pauses_at_once_and_a_retry_goes_on(any_app: Semel, kind: str) -> None:
    @function(retries=MANY)
    def step(id: str) -> Any:
        return send.shape.function(id)

    @function(retries=MANY)
    async def later(id: str) -> Any:
        return send.shape.function(id)

    @model(retries=MANY)
    async def asks(id: str) -> Any:
        return send.shape.function(id)

    works: dict[str, Any] = {"sync": step, "async": later, "model": asks}

    @workflow(name=f"steps-{kind}")
    async def steps(ctx: WorkflowContext, id: str) -> Any:
        return await ctx.step(works[kind], id)

    handle = any_app.start(steps, "1", key="1")
    with pytest.raises(RunPaused, match="NameError: name 'amuont'"):
        handle.result(timeout=20)
    assert len(WORLD) == 1
    BROKEN["is"] = False
    handle.retry(reason="corrected")
    assert handle.result(timeout=20) == {"number": 2}


@effect("asked", key="{id}", retries=MANY, approval=approval())
def asked(id: str) -> Any:
    return send.shape.function(id)


@effect("fine", key="{id}", approval=approval())
def fine(id: str) -> Any:
    return WORLD.do(f"fine {id}")


def approved(app: Semel, what: Any, id: str) -> None:
    """An effect that a person approved, and that only a handler waits for."""
    with pytest.raises(Held):
        what(id)
    for question in app.approvals():
        question.approve(actor="ann")


def test_req_r10_a_handler_leaves_it_for_a_person(any_app: Semel) -> None:
    Worker(any_app, effects=[send, asked, fine]).start()
    with pytest.raises(SemelError):
        send("1")
    approved(any_app, asked, "2")
    until(lambda: "2" in WORLD.calls)
    for id in ("a", "b"):
        # What is due was looked at when this has been sent.
        approved(any_app, fine, id)
        until(lambda id=id: f"fine {id}" in WORLD.calls)
    assert (WORLD.calls.count("1"), WORLD.calls.count("2")) == (1, 1)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger in a schema of its own."""
    ledger = Ledger()
    yield ledger
    ledger.drop()


@effect("plain", key="{id}", retries=MANY)
def plain(id: str) -> Any:
    return WORLD.do(id)


def test_req_r10_an_intent_from_the_outbox_is_tried_once(ledger: Ledger) -> None:
    Worker(ledger.app, effects=[send, plain]).start()
    for action, id in (("send", "1"), ("plain", "a"), ("plain", "b")):
        ledger.execute(f"SELECT intend('{action}', '{id}', '{{\"id\": \"{id}\"}}'::json)")
        until(lambda id=id: id in WORLD.calls)
    assert WORLD.calls == ["1", "a", "b"]


def _posted(url: str, contract: Any, **options: Any) -> Any:
    @effect("posted", key="{id}", contract=contract, retries=MANY, **options)
    def posted(id: str) -> Any:
        answer = semel.httpx.post(url)
        return answer.json()["no such member"]

    return posted


def test_req_r10_after_the_write_it_is_a_doubt_and_nothing_is_sent_again(any_app: Semel) -> None:
    with Provider() as provider:
        posted = _posted(provider.url, at_most_once)
        for _ in range(2):
            with pytest.raises(InDoubt):
                posted("1")
        assert len(provider.seen) == 1


@pytest.mark.parametrize(
    "contract", [native_key(retention="24h"), harmless], ids=["key", "harmless"]
)
def test_req_r10_a_contract_that_resends_does_not_resend_by_itself(
    any_app: Semel, contract: Any
) -> None:
    with Provider() as provider:
        posted = _posted(provider.url, contract)

        @workflow(name="posts")
        async def posts(ctx: WorkflowContext) -> Any:
            return await ctx.step(posted, "1")

        with pytest.raises(InDoubt, match="KeyError: 'no such member'") as told:
            posted("2")
        assert isinstance(told.value.__cause__, KeyError)
        handle = any_app.start(posts, key="1")
        with pytest.raises(RunPaused, match="KeyError"):
            handle.result(timeout=20)
        assert len(provider.seen) == 2


def test_req_r10_a_look_that_is_at_fault_is_asked_once(any_app: Semel) -> None:
    looks: list[str] = []

    def look(id: str) -> Any:
        looks.append(id)
        slip()

    with Provider() as provider:
        posted = _posted(provider.url, probe(look), settle_window="1ms", hold="1s")
        with pytest.raises(InDoubt, match="NameError: name 'amuont'"):
            posted("1")
        assert (looks, len(provider.seen)) == (["1"], 1)


class Missing(KeyError):
    """Below an error of Python, but raised on purpose."""


def test_an_exception_of_your_own_below_a_programming_error_is_retried(app: Semel) -> None:
    @function(retries=MANY)
    def step() -> Any:
        WORLD.do()
        raise Missing("not yet") if len(WORLD) < 3 else ValueError("retried, too")

    @workflow(name="own")
    async def own(ctx: WorkflowContext) -> Any:
        return await ctx.step(step)

    with pytest.raises(RunPaused, match="failed 9 times"):
        app.start(own, key="1").result(timeout=20)
    assert len(WORLD) == 9


def test_what_cannot_be_seen_is_a_doubt(app: Semel, tmp_path: Path) -> None:
    import sqlite3

    rows = sqlite3.connect(tmp_path / "other.db", isolation_level=None, check_same_thread=False)
    rows.execute("CREATE TABLE sent (id)")

    @effect("row", key="{id}", retries=MANY)
    def row(id: str) -> None:
        rows.execute("INSERT INTO sent VALUES (1)")
        slip()

    @effect("file", key="{id}", retries=MANY)
    def file(id: str) -> None:
        (tmp_path / "file").write_text(id)
        slip()

    for unseen in (row, file):
        with pytest.raises(InDoubt):
            unseen("1")
    assert rows.execute("SELECT count(*) FROM sent").fetchone() == (1,)
    rows.close()


def _library() -> Any:
    """A client of an installed package that cannot read a bad answer."""
    library: dict[str, Any] = {}
    source = "def read(answer, is_bad):\n    return None + 1 if is_bad else answer"
    exec(compile(source, "/venv/lib/site-packages/client/read.py", "exec"), library)
    return library["read"]


def test_a_client_that_cannot_read_an_answer_leaves_a_doubt_like_any_other(any_app: Semel) -> None:
    read_answer = _library()
    with Provider() as provider:

        @effect("read", key="{id}", contract=native_key(retention="24h"), retries=MANY)
        def read(id: str) -> Any:
            semel.httpx.post(provider.url)
            return read_answer("T-1", len(provider.seen) == 1)

        assert read("1") == "T-1"
        assert len(provider.seen) == 2, "sent again under the same key, as the contract says"


def test_a_look_whose_client_cannot_read_an_answer_is_asked_again(any_app: Semel) -> None:
    read_answer = _library()
    with Provider() as provider:

        def look(id: str) -> Any:
            semel.httpx.get(provider.url)
            return read_answer("T-1", len(provider.seen) == 2)

        @effect(
            "looked",
            key="{id}",
            contract=probe(look),
            settle_window="1ms",
            hold="1s",
            retries=MANY,
        )
        def looked(id: str) -> Any:
            semel.httpx.post(provider.url)
            raise ConnectionResetError

        assert looked("1") == "T-1"
        assert len(provider.seen) == 3, "one send, and a look that was made again"
