"""One retry budget per effect and one rate per action: calls, runs and handlers share them."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import World, until
from semel import (
    Held,
    NotApplied,
    Retry,
    Semel,
    SemelError,
    Worker,
    WorkflowContext,
    approval,
    effect,
    workflow,
)

WORLD = World()
THREE = Retry(attempts=3, first="10ms", longest="30ms", total="30s")


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


@effect("post", key="{id}", retries=THREE)
def post(id: str) -> Any:
    WORLD.do(id)
    raise NotApplied("refused connection")


@workflow
async def posts(ctx: WorkflowContext, id: str) -> Any:
    return await ctx.step(post, id)


@effect("seldom", key="{id}", rate="1/1h", approval=approval())
def seldom(id: str) -> Any:
    return WORLD.do("seldom")


@effect("often", key="{id}", approval=approval())
def often(id: str) -> Any:
    return WORLD.do(f"often {id}")


def approved(app: Semel, what: Any, id: str) -> None:
    """An effect that a person approved, and that only a handler waits for."""
    with pytest.raises(Held):
        what(id)
    for asked in app.approvals():
        asked.approve(actor="ann")


def refused(id: str) -> None:
    with pytest.raises(SemelError) as caught:
        post(id)
    assert caught.value.code == "retries_exhausted"


def test_req_r10_a_run_a_handler_and_a_caller_share_one_budget(any_app: Semel) -> None:
    app = any_app
    Worker(app, effects=[post, often]).start()
    handle = app.start(posts, "bad")
    until(lambda: handle.state == "paused")
    assert WORLD.calls == ["bad"] * 3
    refused("bad")
    for id in ("a", "b"):
        # What is due was looked at when this has been sent.
        approved(app, often, id)
        until(lambda id=id: f"often {id}" in WORLD.calls)
    assert WORLD.calls.count("bad") == 3
    handle.retry("the relay is back", actor="ann")
    until(lambda: WORLD.calls.count("bad") == 6 and handle.state == "paused")
    refused("bad")
    assert WORLD.calls.count("bad") == 6


def test_req_r10_a_caller_who_was_told_exhausted_has_nothing_sent_behind_its_back(
    app: Semel,
) -> None:
    refused("direct")
    assert WORLD.calls == ["direct"] * 3
    Worker(app, effects=[post, often]).start()
    for id in ("a", "b"):
        approved(app, often, id)
        until(lambda id=id: f"often {id}" in WORLD.calls)
    assert WORLD.calls.count("direct") == 3
    refused("direct")
    assert WORLD.calls.count("direct") == 3


def test_req_r10_a_rate_holds_for_what_handlers_send(any_app: Semel) -> None:
    for number in range(5):
        approved(any_app, seldom, str(number))
    Worker(any_app, effects=[seldom, often]).start()
    for id in ("a", "b"):
        approved(any_app, often, id)
        until(lambda id=id: f"often {id}" in WORLD.calls)
    assert WORLD.calls.count("seldom") == 1
