"""Sagas: a run that fails or is cancelled takes back what it did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import semel
from conftest import World, until
from pydantic import BaseModel
from semel import (
    AsyncSemel,
    Refused,
    RunCancelled,
    Semel,
    SemelError,
    Undone,
    WorkflowContext,
    effect,
    function,
    transaction,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Charge(BaseModel):
    id: str
    amount: int


class Gone(Exception):
    pass


@effect("refund", key="{order_id}")
def refund(charge: Charge, order_id: str, reason: str = "saga") -> str:
    WORLD.do(("refund", type(charge).__name__, charge.id, order_id, reason, semel.intent().key))
    return f"refund of {charge.id}"


@effect("charge", key="{order_id}", compensate_with=refund)
def charge(order_id: str, amount: int) -> Charge:
    WORLD.do(("charge", order_id, amount))
    return Charge(id=f"ch-{order_id}", amount=amount)


@effect("unship", key=["{order_id}", "{parcel}"])
async def unship(receipt: str, order_id: str, parcel: int) -> str:
    WORLD.do(("unship", receipt, order_id, parcel))
    return "back"


@effect("ship", key=["{order_id}", "{parcel}"])
async def ship(order_id: str, parcel: int, to: str) -> str:
    WORLD.do(("ship", order_id, parcel, to))
    return f"track-{parcel}"


@function(exhausted="fail", retries=0)
def check_stock(order_id: str) -> None:
    raise Gone(order_id)


@workflow
async def order(ctx: WorkflowContext, order_id: str) -> None:
    await ctx.step(charge, order_id, 7)
    await ctx.step(ship, order_id, 1, to="Rome", compensate_with=unship)
    await ctx.step(ship, order_id, parcel=2, to="Bonn", compensate_with=unship)
    await ctx.step(check_stock, order_id)


def test_req_o3_what_was_done_is_taken_back_when_a_later_step_fails(any_app: Semel) -> None:
    with pytest.raises(Gone):
        any_app.start(order, "o-1", key="o-1").result(timeout=30)
    assert [call[0] for call in WORLD.calls] == [
        *("charge", "ship", "ship"),
        *("unship", "unship", "refund"),
    ]
    assert any_app.start(order, "o-1", key="o-1").state == "failed"


def test_req_o4_undos_run_last_first_each_under_its_own_key_with_the_receipt(app: Semel) -> None:
    with pytest.raises(Gone):
        app.start(order, "o-2").result(timeout=30)
    assert WORLD.calls[3:] == [
        ("unship", "track-2", "o-2", 2),
        ("unship", "track-1", "o-2", 1),
        ("refund", "Charge", "ch-o-2", "o-2", "saga", "o-2"),
    ]
    for action, key in ((refund, "o-2"), (unship, ["o-2", "1"]), (unship, ["o-2", "2"])):
        found = app.find(action, key)
        assert found is not None and found["state"] == "done"


def test_what_went_well_is_left_alone(app: Semel) -> None:
    @workflow(name="fine")
    async def fine(ctx: WorkflowContext) -> str:
        return (await ctx.step(charge, "o-3", 1, step_id="pay", compensate_with=refund)).id

    assert app.start(fine).result(timeout=20) == "ch-o-3"
    assert [call[0] for call in WORLD.calls] == ["charge"]


@workflow
async def waits(ctx: WorkflowContext, order_id: str) -> None:
    await ctx.step(charge, order_id, 5)
    await ctx.wait_for_signal("go")


def test_a_cancel_after_a_restart_takes_back_what_was_done_before(store_url: str) -> None:
    app = Semel(store_url)
    handle = app.start(waits, "o-4", key="o-4")
    until(lambda: handle.state == "waiting")
    app.close()
    app = Semel(store_url)
    app.offer(waits)
    again = app.run(handle.id)
    again.cancel("the customer left")
    with pytest.raises(RunCancelled):
        again.result(timeout=30)
    assert [call[0] for call in WORLD.calls] == ["charge", "refund"]
    app.close()


def cancelled(app: Semel, order_id: str) -> None:
    handle = app.start(waits, order_id)
    until(lambda: handle.state == "waiting")
    handle.cancel("over")
    with pytest.raises(RunCancelled):
        handle.result(timeout=20)


RECEIPTS = ({"id": "ch-o-5", "amount": 5}, "refund of ch-o-5")


def test_what_was_undone_says_so_with_both_receipts_to_whoever_asks_again(sqlite_url: str) -> None:
    app = Semel(sqlite_url)
    cancelled(app, "o-5")

    @workflow(name="again")
    async def again(ctx: WorkflowContext, is_caught: bool) -> Any:
        try:
            await ctx.step(charge, "o-5", 5)
        except Undone as undone:
            if not is_caught:
                raise
            await ctx.sleep("10ms")
            return [undone.code, undone.receipt, undone.undo_receipt]

    with pytest.raises(Undone) as caught:
        charge("o-5", 5)
    assert (caught.value.receipt, caught.value.undo_receipt) == RECEIPTS
    caught_by = app.start(again, True)
    let_through = app.start(again, False)
    assert caught_by.result(timeout=20) == ["undone", *RECEIPTS]
    with pytest.raises(Undone) as caught:
        let_through.result(timeout=20)
    app.close()
    app = Semel(sqlite_url)
    with pytest.raises(Undone) as after:
        app.run(let_through.id).result(timeout=20)
    for error in (caught.value, after.value):
        assert (error.code, error.receipt, error.undo_receipt) == ("undone", *RECEIPTS)
    assert [call[0] for call in WORLD.calls] == ["charge", "refund"]
    app.close()


def test_undone_is_heard_by_async_callers(sqlite_url: str) -> None:
    @workflow(name="fails", fails=Gone)
    async def fails(ctx: WorkflowContext) -> None:
        await ctx.step(ship, "o-6", 1, "Rome", compensate_with=unship)
        raise Gone

    async def main() -> None:
        async with AsyncSemel(sqlite_url) as app:
            with pytest.raises(Gone):
                await (await app.start(fails)).result(timeout=20)
            with pytest.raises(Undone) as caught:
                await ship("o-6", 1, "Rome")
            assert (caught.value.receipt, caught.value.undo_receipt) == ("track-1", "back")

    asyncio.run(main())


def test_an_undo_that_is_refused_pauses_the_run(app: Semel) -> None:
    handle = app.start(waits, "o-7")
    until(lambda: handle.state == "waiting")
    WORLD.answers.append(Refused("no refund after a day"))
    handle.cancel("over")
    until(lambda: "no refund" in str(handle.status().get("paused")))
    assert handle.status()["waits_on"] == "operator: effect_failed"


class Shop:
    @effect("untake", key="{item}")
    def untake(self, taken: str, item: str) -> str:
        WORLD.do(("untake", type(self).__name__, taken, item))
        return "untaken"

    @effect("take", key="{item}", compensate_with=untake)
    def take(self, item: str) -> str:
        WORLD.do(("take", item))
        return f"taken {item}"


def test_methods_take_back_for_the_same_object(app: Semel) -> None:
    shop = Shop()

    @workflow(name="shopping", fails=Gone)
    async def shopping(ctx: WorkflowContext) -> None:
        await ctx.step(shop.take, "pen")
        await ctx.step(shop.take, "ink", compensate_with=shop.untake)
        raise Gone

    with pytest.raises(Gone):
        app.start(shopping).result(timeout=20)
    assert WORLD.calls[2:] == [
        ("untake", "Shop", "taken ink", "ink"),
        ("untake", "Shop", "taken pen", "pen"),
    ]


@effect("by-receipt", key="{charge.id}")
def by_receipt(charge: Charge, order_id: str) -> str:
    return ""


@effect("by-function", key=lambda charge: charge.id)
def by_function(charge: Charge) -> str:
    return ""


@effect("without", key="one")
def without() -> str:
    return ""


@effect("more", key="{order_id}")
def more(charge: Charge, order_id: str, currency: str) -> str:
    return ""


@transaction("rows", key="{order_id}")
def rows(tx: Any, charge: Charge, order_id: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("undo", "why"),
    [
        (by_receipt, "may not be made of the receipt"),
        (by_function, "may not be made of the receipt"),
        (without, "no first parameter"),
        (more, "takes `currency`"),
        (rows, "is a transaction"),
        (check_stock, "is a declared effect"),
        (lambda receipt: None, "is a declared effect"),
        ("refund", "is a declared effect"),
    ],
)
def test_what_cannot_take_back_is_refused_where_it_is_declared(undo: Any, why: str) -> None:
    with pytest.raises(SemelError, match=why) as caught:

        @effect("declared", key="{order_id}", compensate_with=undo)
        def declared(order_id: str) -> Charge: ...

    assert caught.value.code == "input_invalid"


def test_only_effects_are_taken_back(app: Semel) -> None:
    @workflow(name="odd")
    async def odd(ctx: WorkflowContext) -> list[str]:
        told: list[str] = []
        for fn, undo in ((check_stock, refund), (charge, check_stock), (charge, by_receipt)):
            try:
                ctx.step(fn, "o-8", compensate_with=undo)  # type: ignore[call-overload]
            except SemelError as error:
                told.append(error.code)
        return told

    assert app.start(odd).result(timeout=20) == ["input_invalid"] * 3
    assert WORLD.calls == []
