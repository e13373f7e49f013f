"""An error proves that nothing happened only if nothing was written earlier in the attempt."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import smtplib
import socket
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import requests
import uvloop
from conftest import until
from evidence_patterns import (
    LATER,
    PATTERNS,
    aiohttp_post,
    post_httpx,
    post_requests,
    stream_post,
)
from postgres_kit import Ledger
from postgres_server import postgres_server
from semel import (
    AsyncSemel,
    NotApplied,
    Retry,
    Semel,
    SemelError,
    Worker,
    WorkflowContext,
    at_most_once,
    effect,
    workflow,
)
from stand_ins import Provider, refusing_url
from test_classify_smtp import MailServer

TWICE = Retry(attempts=2, first="1ms", longest="1ms")
STATES = {"unknown": "in_doubt", "refused": "failed", "not_applied": "planned"}
WORLD: dict[str, str] = {}


@contextmanager
def world(*script: str) -> Iterator[Provider]:
    """A server that answers by the script, and an address at which nobody listens."""
    WORLD["dead"] = refusing_url()
    with Provider(*(word.format(**WORLD) for word in script)) as live:
        WORLD["live"] = live.url
        yield live


@effect("crm-ticket", key="{id}", contract=at_most_once, retries=TWICE)
def perform(id: str) -> None:
    """Whatever the pattern says."""
    PATTERNS[id].work(WORLD["live"], WORLD["dead"])


def outcomes(app: Semel, target: Any, id: str) -> tuple[str, list[str]]:
    """The state of the effect, and what was proven of each of its attempts."""
    found = app.find(target, id)
    assert found is not None
    return found["state"], [attempt["outcome"] for attempt in found["attempts"]]


@pytest.mark.parametrize("name", PATTERNS)
def test_req_o8_what_an_error_proves_after_all_that_the_attempt_did(
    app: Semel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    pattern = PATTERNS[name]
    with world(*pattern.script) as live:
        with pytest.raises(Exception) as told:
            perform(name)
        while LATER:
            go, thread = LATER.pop()
            go.set()
            thread.join()
        state, found = outcomes(app, perform, name)
        tries = 2 if pattern.proves == "not_applied" else 1
        assert (state, len(live.seen)) == (STATES[pattern.proves], pattern.requests * tries), told
        proven = "unknown" if pattern.proves == "unknown" else "not_applied"
        assert found == [proven] * tries


@effect("written-then-read", key="{id}", contract=at_most_once, retries=TWICE)
def write_then_read(id: str) -> None:
    """Makes a ticket, and then reads from a host that refuses."""
    post_requests(WORLD["live"])
    requests.get(WORLD["dead"])


@effect("refused", key="{id}", contract=at_most_once, retries=TWICE)
def only_refused(id: str) -> None:
    """The plain case."""
    post_requests(WORLD["dead"])


CASES = {
    "written": (write_then_read, ["unknown"], 1),
    "refused": (only_refused, ["not_applied"] * 2, 0),
}


def settled(app: Semel, which: str) -> list[str]:
    """What is proven of the case's attempts, once there are as many as it makes."""
    target, proven, _ = CASES[which]

    def found() -> list[str]:
        attempts = (app.find(target, "1") or {}).get("attempts", [])
        return [attempt["outcome"] for attempt in attempts if attempt["outcome"] != "open"]

    until(lambda: len(found()) >= len(proven))
    return found()


@workflow
async def ticket(ctx: WorkflowContext, which: str) -> None:
    """One of the cases, in a run."""
    await ctx.step(CASES[which][0], ctx.key)


@pytest.mark.parametrize("which", CASES)
def test_req_o8_in_a_run(any_app: Semel, which: str) -> None:
    _, proven, requests_ = CASES[which]
    with world("ok") as live:
        any_app.start(ticket, which, key="1")
        assert settled(any_app, which)[: len(proven)] == proven
        assert len(live.seen) == requests_


@pytest.mark.parametrize("which", CASES)
def test_req_o8_in_a_handler_of_the_outbox(which: str) -> None:
    target, proven, requests_ = CASES[which]
    ledger = Ledger()
    try:
        Worker(ledger.app, effects=[target]).start()
        with world("ok") as live:
            ledger.execute(f"SELECT intend('{target.action}', '1', '{{\"id\": \"1\"}}'::json)")
            assert settled(ledger.app, which)[: len(proven)] == proven
            assert len(live.seen) == requests_
    finally:
        ledger.drop()


@effect("async", key="{id}", contract=at_most_once, retries=0)
async def perform_async(id: str) -> None:
    """A write on this very event loop, or none, and then a refusal."""
    if id == "written":
        await aiohttp_post(WORLD["live"])
    if id.endswith("stream"):
        await stream_post(WORLD["dead"])
    await aiohttp_post(WORLD["dead"])


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_req_o8_on_an_event_loop(sqlite_url: str, loops: Any) -> None:
    wants = {
        "written": "unknown",
        "refused": "not_applied",
        # On uvloop nothing of it can be seen.
        "refused stream": "unknown" if loops is uvloop.new_event_loop else "not_applied",
    }

    async def main() -> dict[str, str]:
        async with AsyncSemel(sqlite_url) as app:
            found: dict[str, str] = {}
            for id in wants:
                with pytest.raises(SemelError):
                    await perform_async(id)
                seen = await app.find(perform_async, id)
                assert seen is not None
                found[id] = seen["attempts"][-1]["outcome"]
            return found

    loop = loops()
    try:
        with world("ok") as live:
            assert loop.run_until_complete(main()) == wants
            assert len(live.seen) == 1
    finally:
        loop.close()


def once(app: Semel, work: Callable[[], Any]) -> str:
    """What is proven of one attempt that does this."""

    @effect("once", key="{id}", contract=at_most_once, retries=0)
    def perform_once(id: str) -> None:
        work()

    with pytest.raises(Exception):  # noqa: B017
        perform_once("1")
    found = app.find(perform_once, "1")
    assert found is not None
    return "refused" if found["state"] == "failed" else str(found["attempts"][-1]["outcome"])


def post_mail(port: int, times: int = 1) -> None:
    with smtplib.SMTP("127.0.0.1", port) as session:
        for _ in range(times):
            session.sendmail("a@example.com", ["b@example.com"], "hello")


def test_a_mail_that_was_not_taken_is_refused_and_not_applied(app: Semel) -> None:
    with MailServer(RCPT="550 nobody") as server:
        assert once(app, lambda: post_mail(server.port)) == "refused"


def test_a_refusal_after_a_mail_was_taken_is_unknown(app: Semel) -> None:
    def mail_then_post() -> None:
        post_mail(server.port)
        post_httpx(refusing_url())

    with MailServer() as server:
        assert once(app, mail_then_post) == "unknown"


def test_a_second_mail_that_is_refused_says_nothing_about_the_first(app: Semel) -> None:
    def mail_twice() -> None:
        with smtplib.SMTP("127.0.0.1", server.port) as session:
            session.sendmail("a@example.com", ["b@example.com"], "hello")
            server.answers["RCPT"] = "550 nobody"
            session.sendmail("a@example.com", ["b@example.com"], "hello")

    with MailServer() as server:
        assert once(app, mail_twice) == "unknown"


def test_rows_written_by_psycopg_come_before_a_refusal(app: Semel) -> None:
    with psycopg.connect(postgres_server(), autocommit=True) as connection:

        def write_rows() -> None:
            connection.execute("SELECT 1")
            post_httpx(refusing_url())

        assert once(app, write_rows) == "unknown"


def test_a_client_in_c_leaves_every_error_unknown(
    app: Semel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pycurl", types.ModuleType("pycurl"))

    @effect("in-c", key="{id}", contract=at_most_once, retries=0)
    def perform_in_c(id: str) -> None:
        import pycurl  # type: ignore[import-not-found,import-untyped,unused-ignore]

        assert pycurl
        post_httpx(refusing_url())

    with pytest.raises(SemelError):
        perform_in_c("1")
    found = app.find(perform_in_c, "1")
    assert found is not None and found["state"] == "in_doubt"


def test_a_log_line_that_goes_over_the_network_is_no_write_of_the_effect(app: Semel) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        handler = logging.handlers.SysLogHandler(listener.getsockname())
        logger = logging.getLogger("semel-evidence")
        logger.addHandler(handler)

        def log_then_post() -> None:
            logger.error("about to post")
            post_httpx(refusing_url())

        try:
            assert once(app, log_then_post) == "not_applied"
            assert b"about to post" in listener.recv(1000)
        finally:
            logger.removeHandler(handler)
            handler.close()


def test_an_attempt_is_not_blamed_for_others(app: Semel) -> None:
    @effect("other", key="{id}", contract=at_most_once, retries=0)
    def other(id: str) -> None:
        post_httpx(WORLD["live"])

    def call_other() -> None:
        other("1")  # an effect of its own, with a receipt of its own
        post_httpx(refusing_url())

    with world("ok"):
        post_requests(WORLD["live"])
        assert once(app, call_other) == "not_applied"


def test_what_the_function_says_itself_counts(app: Semel) -> None:
    def say() -> None:
        raise NotApplied(f"{requests.post(WORLD['live']).status_code}, but it is closed")

    with world("ok"):
        assert once(app, say) == "not_applied"
