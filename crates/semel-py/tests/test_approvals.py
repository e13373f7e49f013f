"""Approvals: a person decides on one exact payload before it is sent."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from conftest import Script, World, until
from pydantic import BaseModel
from semel import (
    Approval,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalReturned,
    AsyncSemel,
    FourEyes,
    Held,
    NotHeld,
    Question,
    Semel,
    SemelError,
    TimedOut,
    WorkflowContext,
    approval,
    effect,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Refund(BaseModel):
    amount: int


@effect(
    "refund",
    key="{order_id}",
    approval=approval(
        expires="7d", four_eyes=True, requested_by="{agent}", note="refund for {order_id}"
    ),
)
def refund(order_id: str, refund: Refund, agent: str) -> str:
    WORLD.do((order_id, refund.amount))
    return f"refunded {refund.amount}"


@workflow
async def refunds(ctx: WorkflowContext, order_id: str) -> str:
    return await ctx.step(refund, order_id, Refund(amount=7), "bot")


def question(app: Semel) -> Question:
    (found,) = until(app.approvals)
    return found


def test_req_a1_however_late_the_approval_the_run_goes_on_under_its_first_key(
    store_url: str,
) -> None:
    app = Semel(store_url)
    handle = app.start(refunds, "o-1", key="o-1")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(store_url)
    asked = question(app)
    assert (asked.action, asked.key, asked.requested_by) == ("refund", "o-1", "bot")
    assert (asked.note, asked.four_eyes, asked.only) == ("refund for o-1", True, False)
    assert asked.input == {"order_id": "o-1", "refund": {"amount": 7}, "agent": "bot"}
    assert (asked.workflow, asked.run_id) == ("refunds", handle.id)
    assert asked.expires_at is not None
    assert asked.expires_at - asked.asked_at == timedelta(days=7)
    assert not WORLD.calls
    app.offer(refunds)
    decided = asked.approve("fine", actor="ann")
    assert (decided.answer, decided.by, decided.note, decided.is_new) == (
        *("approved", "ann", "fine"),
        True,
    )
    assert app.run(handle.id).result(timeout=30) == "refunded 7"
    assert app.approvals() == []
    assert WORLD.calls == [("o-1", 7)]
    app.close()


def test_req_a2_a_second_click_adds_nothing_and_is_told_the_first_answer(app: Semel) -> None:
    handle = app.start(refunds, "o-2")
    asked = question(app)
    asked.approve(actor="ann")
    again = asked.deny("too much", actor="bob")
    assert (again.answer, again.by, again.is_new) == ("approved", "ann", False)
    assert handle.result(timeout=20) == "refunded 7"
    assert len(WORLD) == 1


def test_req_a3_nothing_is_sent_before_whoever_asks_and_however_often(any_app: Semel) -> None:
    for _ in range(3):
        with pytest.raises(Held) as caught:
            refund("o-3", Refund(amount=5), "bot")
        assert caught.value.code == "held"
    assert not WORLD.calls
    question(any_app).approve(actor="ann")
    assert refund("o-3", Refund(amount=5), "bot") == "refunded 5"
    assert refund("o-3", Refund(amount=5), "bot") == "refunded 5"
    assert WORLD.calls == [("o-3", 5)]


def test_a_no_is_told_to_everybody(app: Semel) -> None:
    handle = app.start(refunds, "o-4")
    question(app).deny("no budget: none", actor="ann")
    with pytest.raises(ApprovalDenied) as caught:
        handle.result(timeout=20)
    assert (caught.value.by, caught.value.note) == ("ann", "no budget: none")
    with pytest.raises(ApprovalDenied):
        refund("o-4", Refund(amount=7), "bot")
    assert not WORLD.calls


def test_four_eyes_and_what_is_decided_already(app: Semel) -> None:
    handle = app.start(refunds, "o-5")
    asked = question(app)
    with pytest.raises(FourEyes):
        asked.approve(actor="bot")
    with pytest.raises(SemelError):
        asked.deny("", actor="ann")
    assert app.approvals()[0].digest == asked.digest
    asked.return_("half of it", actor="ann")
    with pytest.raises(ApprovalReturned) as caught:
        handle.result(timeout=20)
    assert (caught.value.note, caught.value.code) == ("half of it", "approval_returned")


def test_there_must_be_a_question(app: Semel) -> None:
    @effect("free", key="{id}")
    def free(id: str) -> str:
        return id

    with pytest.raises(Held):
        refund("o-6", Refund(amount=1), "bot")
    asked = question(app)
    free("x")
    asked.action, asked.key = "free", "x"
    with pytest.raises(NotHeld):
        asked.approve(actor="ann")


def test_silence_is_a_no(app: Semel) -> None:
    @effect("hasty", key="{id}", approval=approval(expires="100ms"))
    def hasty(id: str) -> str:
        return WORLD.do(id)

    @workflow(name="hastes")
    async def hastes(ctx: WorkflowContext) -> str:
        try:
            return await ctx.step(hasty, "x")
        except ApprovalExpired as expired:
            return expired.code

    assert app.start(hastes).result(timeout=30) == "approval_expired"
    assert not WORLD.calls


@pytest.mark.parametrize(
    "rule",
    [
        lambda: approval(four_eyes=True),
        lambda: approval(expires="0s"),
        lambda: approval(expires="soon"),
        lambda: approval(requested_by="{nobody}"),
        lambda: approval(note=lambda nobody: nobody),
        lambda: "ann",
    ],
)
def test_what_cannot_be_asked_is_refused_where_it_is_declared(rule: Any) -> None:
    with pytest.raises((SemelError, TypeError)):

        @effect("wrong", key="{id}", approval=rule())
        def wrong(id: str) -> str: ...


class Answer(BaseModel):
    by: str
    note: str
    is_recent: bool


@workflow
async def asks(ctx: WorkflowContext, name: str) -> Answer | str:
    try:
        said: Approval = await ctx.approve(
            "refund-check", {"order": name}, expires="1d", requested_by="bot", note="please"
        )
    except (ApprovalDenied, ApprovalReturned) as no:
        return f"{no.code} {no.by} {no.note}"
    age = datetime.now(timezone.utc) - said.at
    return Answer(by=said.by, note=said.note, is_recent=age < timedelta(minutes=5))


def test_req_a6_a_question_is_asked_once_and_its_answer_survives_a_restart(store_url: str) -> None:
    app = Semel(store_url)
    handle = app.start(asks, "a", key="a")
    asked = question(app)
    app.close()
    app = Semel(store_url)
    again = question(app)
    assert (again.key, again.digest, again.only) == (asked.key, asked.digest, True)
    assert (again.input, again.note) == ({"order": "a"}, "please")
    again.approve("go on", actor="ann")
    app.offer(asks)
    said = app.run(handle.id, asks).result(timeout=30)
    assert said == Answer(by="ann", note="go on", is_recent=True)
    assert app.approvals() == []
    app.close()


def test_a_no_to_a_question(app: Semel) -> None:
    denied, returned = app.start(asks, "a"), app.start(asks, "b")
    until(lambda: len(app.approvals()) == 2)
    for one in app.approvals():
        if one.input == {"order": "a"}:
            one.deny("never", actor="ann")
        else:
            one.return_("ask bob", actor="ann")
    assert denied.result(timeout=20) == "approval_denied ann never"
    assert returned.result(timeout=20) == "approval_returned ann ask bob"


def test_one_question_for_all_runs_of_a_key(app: Semel) -> None:
    @workflow(name="shared")
    async def shared(ctx: WorkflowContext) -> str:
        return (await ctx.approve("budget", 2026, key=["budget", "2026"])).by

    handles = [app.start(shared) for _ in range(3)]
    until(lambda: all(handle.state == "waiting" for handle in handles))
    question(app).approve(actor="ann")
    assert [handle.result(timeout=20) for handle in handles] == ["ann"] * 3


@workflow
async def chooses(ctx: WorkflowContext, timeout: float | None) -> Any:
    try:
        return await ctx.wait_for_user(
            "size", "Which size?", choices=["small", "large"], timeout=timeout
        )
    except TimedOut as late:
        return f"{late.code} {'size' in late.detail}"


def test_a_user_chooses_and_what_is_no_choice_is_passed_over(store_url: str) -> None:
    app = Semel(store_url)
    handle = app.start(chooses, None, key="size")
    until(lambda: handle.state == "waiting")
    assert {"prompt": "Which size?", "choices": ["small", "large"]} in [
        wait.get("note") for wait in handle.status()["waits"]
    ]
    for wrong in ("huge", {"large": 1}, None, ["small"]):
        handle.signal("size", wrong)
    app.close()
    app = Semel(store_url)
    app.offer(chooses)
    handle = app.run(handle.id)
    handle.signal("size", "large")
    assert handle.result(timeout=30) == "large"
    app.close()


def test_a_user_who_only_talks_is_waited_for_no_longer(app: Semel) -> None:
    handle = app.start(chooses, 0.5)
    handle.signal("size", "huge")
    assert handle.result(timeout=30) == "timed_out True"


def test_a_user_says_something_of_a_type(app: Semel) -> None:
    @workflow(name="talks")
    async def talks(ctx: WorkflowContext) -> list[Any]:
        typed = await ctx.wait_for_user("one", "How much?", type=Refund)
        return [typed.amount, await ctx.wait_for_user("two", "What?", timeout="1h")]

    handle = app.start(talks)
    handle.signal("one", {"amount": 3})
    handle.signal("two", {"any": "thing"})
    assert handle.result(timeout=20) == [3, {"any": "thing"}]


def test_approvals_for_async_code(sqlite_url: str) -> None:
    async def main() -> Any:
        async with AsyncSemel(sqlite_url) as app:
            handle = await app.start(refunds, "o-9")
            while not (found := await app.approvals()):
                await asyncio.sleep(0.02)
            with pytest.raises(FourEyes):
                await found[0].deny("no", actor="bot")
            decided = await found[0].approve(actor="ann")
            again = await found[0].return_("late", actor="bob")
            assert (decided.is_new, again.is_new, again.answer) == (True, False, "approved")
            return await handle.result(timeout=20)

    assert asyncio.run(main()) == "refunded 7"


def test_the_command_line_decides_for_a_python_run(
    app: Semel, script: Script, sqlite_url: str
) -> None:
    handle = app.start(refunds, "o-10")
    question(app)
    line = ["-m", "semel", "--store", sqlite_url, "approvals", "approve", "refund/o-10"]
    done = script.run(*line, "--actor", "ann")
    assert done.returncode == 0, done.stderr
    assert handle.result(timeout=20) == "refunded 7"
