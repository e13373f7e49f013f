"""Callbacks: a token by which somebody outside answers once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import World, until
from pydantic import BaseModel
from semel import (
    AsyncSemel,
    Callback,
    InputChanged,
    Semel,
    SemelError,
    TimedOut,
    WorkflowContext,
    effect,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Finding(BaseModel):
    text: str


@effect("ask-agent", key="{question}", fingerprint=["question"])
def ask_agent(question: str, token: str) -> None:
    WORLD.do(token)


@effect("apply", key="{question}")
def apply(question: str, text: str) -> None:
    WORLD.do(("apply", text))


@workflow
async def research(ctx: WorkflowContext, question: str) -> str:
    callback: Callback = await ctx.callback("research")
    await ctx.step(ask_agent, question, callback.token)
    found = await callback.answer(timeout="1h", type=Finding)
    await ctx.step(apply, question, found.text)
    return f"{type(found).__name__} {found.text} {callback!r}"


def test_req_a7_an_agent_that_reports_twice_is_applied_once(store_url: str) -> None:
    app = Semel(store_url)
    handle = app.start(research, "why", key="why")
    until(lambda: handle.state == "waiting" and WORLD.calls)
    (token,) = WORLD.calls
    app.close()
    app = Semel(store_url)
    assert app.call_back(token, {"text": "because"})
    assert not app.call_back(token, Finding(text="because")), "the same answer again"
    app.offer(research)
    again = app.run(handle.id)
    assert again.result(timeout=20) == "Finding because <callback research#0>"
    with pytest.raises(SemelError):
        app.call_back(token, {"text": "other"})
    assert WORLD.calls == [token, ("apply", "because")]
    app.close()


def test_another_answer_is_told_that_it_came_too_late(app: Semel) -> None:
    handle = app.start(research, "who")
    until(lambda: handle.state == "waiting" and WORLD.calls)
    assert app.call_back(WORLD.calls[0], {"text": "first"})
    with pytest.raises(InputChanged):
        app.call_back(WORLD.calls[0], {"text": "second"})
    assert handle.result(timeout=20).startswith("Finding first")


def test_a_token_that_nobody_gave_out_is_not_found(app: Semel) -> None:
    for token in ("", "x", "default.00", "no/name.11"):
        with pytest.raises(SemelError) as caught:
            app.call_back(token, 1)
        assert caught.value.code == "not_found"


def test_no_answer_in_time_and_plain_answers(app: Semel) -> None:
    @workflow(name="patient")
    async def patient(ctx: WorkflowContext) -> list[Any]:
        callback = await ctx.callback("agent")
        other = await ctx.callback("agent")
        try:
            await callback.answer(timeout="30ms")
        except TimedOut as late:
            told = [late.code, "agent#0" in late.detail]
        await ctx.step(ask_agent, "q", other.token)
        return [*told, await other.answer(), callback.token != other.token]

    handle = app.start(patient)
    until(lambda: WORLD.calls)
    app.call_back(WORLD.calls[0], {"plain": [1]})
    assert handle.result(timeout=20) == ["timed_out", True, {"plain": [1]}, True]


def test_callbacks_for_async_code(sqlite_url: str) -> None:
    async def main() -> Any:
        async with AsyncSemel(sqlite_url) as app:
            handle = await app.start(research, "how")
            while not WORLD.calls:
                await asyncio.sleep(0.02)
            assert await app.call_back(WORLD.calls[0], {"text": "so"})
            assert not await app.call_back(WORLD.calls[0], {"text": "so"})
            return await handle.result(timeout=20)

    assert asyncio.run(main()).startswith("Finding so")
