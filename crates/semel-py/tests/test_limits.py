"""Limits: how many runs at once, and how many sends in a time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import World, until
from semel import (
    AsyncSemel,
    ConcurrencyRejected,
    RateLimited,
    Semel,
    SemelError,
    WorkflowContext,
    concurrency,
    effect,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


@dataclass
class Order:
    id: str
    customer: str


@effect("begin", key="{id}")
def begin(id: str) -> Any:
    return WORLD.do(id)


@workflow(concurrency=2)
async def two_at_once(ctx: WorkflowContext, id: str) -> str:
    await ctx.step(begin, id)
    await ctx.wait_for_signal("go")
    return id


def test_req_c6_so_many_runs_of_a_workflow_are_under_way_at_once(store_url: str) -> None:
    app = Semel(store_url)
    handles = [app.start(two_at_once, str(number), key=str(number)) for number in range(4)]
    until(lambda: len(WORLD) == 2)
    app.close()
    app = Semel(store_url)
    app.offer(two_at_once)
    again = [app.run(handle.id) for handle in handles]
    until(lambda: [handle.state for handle in again[:2]] == ["waiting"] * 2)
    assert sorted(WORLD.calls) == ["0", "1"], "a restart gives no slot to anybody else"
    for handle in again:
        handle.signal("go")
    assert [handle.result(timeout=30) for handle in again] == ["0", "1", "2", "3"]
    app.close()


def keyed(mode: Any, template: str) -> Any:
    @workflow(name=f"one-{mode}", concurrency=concurrency(key=template, mode=mode))
    async def one(ctx: WorkflowContext, order: Order) -> str:
        await ctx.step(begin, order.id)
        await ctx.wait_for_signal("go")
        return order.id

    return one


@pytest.mark.parametrize("template", ["{customer}", "{order.customer}"])
def test_req_c6_runs_that_touch_the_same_thing_wait_for_each_other(
    app: Semel, template: str
) -> None:
    one = keyed("queue", template)
    first = app.start(one, Order("a", "ann"))
    until(lambda: len(WORLD) == 1)
    second = app.start(one, Order("b", "ann"))
    other = app.start(one, Order("c", "bob"))
    until(lambda: len(WORLD) == 2)
    assert WORLD.calls == ["a", "c"]
    for handle in (first, second, other):
        handle.signal("go")
    assert [handle.result(timeout=20) for handle in (first, second, other)] == ["a", "b", "c"]


def test_a_run_whose_key_is_taken_is_rejected(app: Semel) -> None:
    one = keyed("reject", "{customer}")
    first = app.start(one, Order("a", "ann"), key="a")
    with pytest.raises(ConcurrencyRejected) as caught:
        app.start(one, Order("b", "ann"), key="b")
    assert caught.value.code == "concurrency_rejected"
    assert app.start(one, Order("a", "ann"), key="a").attached, "its own start may be repeated"
    first.signal("go")
    first.result(timeout=20)
    second = app.start(one, Order("b", "ann"), key="b")
    second.signal("go")
    assert second.result(timeout=20) == "b"


def test_a_run_whose_key_is_taken_is_that_run(app: Semel) -> None:
    one = keyed("coalesce", "{customer}")
    first = app.start(one, Order("a", "ann"), key="a")
    same = app.start(one, Order("b", "ann"), key="b")
    assert (same.id, same.attached) == (first.id, True)
    same.signal("go")
    assert first.result(timeout=20) == same.result(timeout=20) == "a"


def test_one_value_or_several_parameters_are_a_key(app: Semel) -> None:
    @workflow(name="by-value", concurrency=concurrency(key="{customer}", mode="reject"))
    async def by_value(ctx: WorkflowContext, customer: str) -> None:
        await ctx.wait_for_signal("go")

    @workflow(name="by-both", concurrency=concurrency(5, key="{order.id}/{shop}", mode="reject"))
    async def by_both(ctx: WorkflowContext, order: Order, shop: int) -> None:
        await ctx.wait_for_signal("go")

    app.start(by_value, "ann")
    app.start(by_value, "bob")
    app.start(by_both, Order("a", "ann"), 1)
    app.start(by_both, Order("a", "ann"), 2)
    for start in (
        lambda: app.start(by_value, "ann"),
        lambda: app.start(by_both, Order("a", ""), 2),
    ):
        with pytest.raises(ConcurrencyRejected):
            start()


def test_limits_for_async_code(sqlite_url: str) -> None:
    one = keyed("reject", "{customer}")

    async def main() -> None:
        async with AsyncSemel(sqlite_url) as app:
            await app.start(one, Order("a", "ann"))
            with pytest.raises(ConcurrencyRejected):
                await app.start(one, Order("b", "ann"))

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        0,
        -1,
        concurrency(),
        concurrency(0),
        concurrency(key="no place"),
        concurrency(key="{order"),
        concurrency(key="{order!r}"),
        concurrency(key="{{x}}{order}"),
        concurrency(2, mode="drop"),  # type: ignore[arg-type]
        True,
        "5",
    ],
)
def test_what_nothing_could_pass_is_refused_where_it_is_declared(wrong: Any) -> None:
    with pytest.raises((SemelError, TypeError)):

        @workflow(concurrency=wrong)
        async def one(ctx: WorkflowContext, order: Order) -> None: ...


def test_of_several_parameters_the_key_names_one() -> None:
    with pytest.raises(SemelError, match="customer"):

        @workflow(concurrency=concurrency(key="{customer}"))
        async def one(ctx: WorkflowContext, order: Order, shop: int) -> None: ...


@effect("ping", key="{id}", rate="2/1s", hold="5s")
def ping(id: int) -> Any:
    return WORLD.do(time.monotonic())


def test_sends_are_spread_by_a_rate_and_repeats_need_none(any_app: Semel) -> None:
    for id in range(4):
        ping(id)
    assert WORLD.calls[2] - WORLD.calls[0] > 0.9, "at most two in any window of a second"
    for id in range(4):
        ping(id)
    assert len(WORLD) == 4


@workflow
async def pings(ctx: WorkflowContext, many: int) -> int:
    for id in range(many):
        await ctx.step(ping, id)
    return many


def test_a_run_waits_for_the_rate(app: Semel) -> None:
    assert app.start(pings, 4).result(timeout=30) == 4
    assert WORLD.calls[2] - WORLD.calls[0] > 0.9


def test_a_caller_that_will_not_wait_so_long_is_told_for_how_long(app: Semel) -> None:
    @effect("rare", key="{id}", rate="1/1h", hold="100ms", retries=0)
    def rare(id: int) -> Any:
        return WORLD.do(id)

    rare(1)
    with pytest.raises(RateLimited) as caught:
        rare(2)
    assert caught.value.retry_after is not None and 3000 < caught.value.retry_after <= 3600
    assert WORLD.calls == [1]


@pytest.mark.parametrize("rate", ["10", "10/", "/1s", "0/1s", "x/1s", "10/1x", "-1/1s", "1/0s"])
def test_a_rate_that_is_none_is_refused_where_it_is_declared(rate: str) -> None:
    with pytest.raises(SemelError) as caught:

        @effect("wrong", key="x", rate=rate)
        def wrong() -> None: ...

    assert caught.value.code in ("input_invalid", "duration_invalid")
