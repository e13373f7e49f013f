"""Schedules: runs that start by the clock."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import BaseModel
from semel import AsyncSemel, ScheduleInvalid, Semel, SemelError, WorkflowContext, workflow


class Branch(BaseModel):
    name: str


@workflow
async def report(ctx: WorkflowContext, branch: Branch) -> str:
    return branch.name


@workflow
async def several(ctx: WorkflowContext, branch: Branch, copies: int = 2) -> str:
    return branch.name * copies


@workflow
async def plain(ctx: WorkflowContext) -> None: ...


@workflow
async def optional(ctx: WorkflowContext, name: str = "all") -> str:
    return name


def put(app: Semel, **options: Any) -> Any:
    return app.schedule("nightly", report, input=Branch(name="Rome"), **options)


def test_a_schedule_is_there_after_a_restart_and_said_again_changes_nothing(store_url: str) -> None:
    app = Semel(store_url)
    made = put(app, cron="0 3 * * *", zone="Europe/Rome", catch_up="once")
    assert (made.name, made.workflow, made.cron) == ("nightly", "report", "0 3 * * *")
    assert (made.zone, made.catch_up, made.input) == ("Europe/Rome", "once", {"name": "Rome"})
    assert (made.fired, made.skipped, made.last, made.is_paused) == (0, 0, None, False)
    assert all(tick > datetime.now(timezone.utc) for tick in made.next)
    assert all(tick.astimezone(timezone.utc).hour in (1, 2) for tick in made.next)
    app.close()
    app = Semel(store_url)
    (found,) = app.schedules()
    assert found == put(app, cron="0 3 * * *", zone="Europe/Rome", catch_up="once") == made
    assert put(app, cron="0 4 * * *").zone == "UTC"
    app.close()


def test_a_schedule_is_paused_resumed_and_removed(app: Semel) -> None:
    put(app, cron="@daily")
    app.pause_schedule("nightly", reason="holidays")
    assert app.schedules()[0].is_paused
    app.resume_schedule("nightly")
    assert not app.schedules()[0].is_paused
    app.remove_schedule("nightly")
    assert app.schedules() == []
    for steer in (app.resume_schedule, app.remove_schedule):
        with pytest.raises(SemelError) as caught:
            steer("nightly")
        assert caught.value.code == "not_found"


def test_each_run_gets_the_input(app: Semel) -> None:
    inputs = [
        app.schedule("a", several, cron="@daily", input={"branch": {"name": "x"}}).input,
        app.schedule("b", several, cron="@daily", input={"branch": Branch(name="y"), "copies": 1}),
        app.schedule("c", plain, cron="@daily").input,
        app.schedule("d", optional, cron="@daily").input,
        app.schedule("e", "elsewhere", cron="@daily", input=[1]).input,
    ]
    inputs[1] = inputs[1].input
    assert inputs == [
        {"branch": {"name": "x"}, "copies": 2},
        {"branch": {"name": "y"}, "copies": 1},
        None,
        "all",
        [1],
    ]
    assert [one.name for one in app.schedules()] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "0 3 * *"},
        {"cron": "61 3 * * *"},
        {"cron": "0 3 * * *", "zone": "Europe/Atlantis"},
        {"cron": "0 3 * * *", "catch_up": "twice"},
    ],
)
def test_what_makes_no_sense_is_refused(app: Semel, options: Any) -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        put(app, **options)
    assert caught.value.code == "schedule_invalid"
    assert app.schedules() == []


def test_an_input_that_does_not_fit_is_refused(app: Semel) -> None:
    for workflow_, input in ((report, {"nom": 1}), (several, {"copies": 1}), (several, 5)):
        with pytest.raises((SemelError, TypeError)):
            app.schedule("nightly", workflow_, cron="@daily", input=input)
    assert app.schedules() == []


def test_schedules_for_async_code(sqlite_url: str) -> None:
    async def main() -> None:
        async with AsyncSemel(sqlite_url) as app:
            made = await app.schedule("nightly", report, cron="@daily", input=Branch(name="x"))
            assert await app.schedules() == [made]
            await app.pause_schedule("nightly", reason="holidays")
            assert (await app.schedules())[0].is_paused
            await app.resume_schedule("nightly")
            await app.remove_schedule("nightly")
            assert await app.schedules() == []

    asyncio.run(main())
