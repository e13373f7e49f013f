"""What fails a run and undoes what it did, and what only pauses it."""

from __future__ import annotations

import asyncio
import builtins
import sys
from typing import Any

import pytest
import semel
from conftest import World, opened, until
from pydantic import BaseModel
from semel import (
    ChildFailed,
    Fail,
    Refused,
    RunHandle,
    RunPaused,
    WorkflowContext,
    effect,
    function,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class OutOfStock(Exception):
    pass


class Sent(BaseModel):
    id: str


@effect("refund", key="{order}")
def refund(receipt: str, order: str) -> str:
    WORLD.do(("refund", receipt))
    return "refunded"


@effect("charge", key="{order}", compensate_with=refund)
def charge(order: str) -> str:
    WORLD.do(("charge", order))
    return f"ch-{order}"


@effect("mail", key="{order}")
def mail(order: str) -> str:
    WORLD.do(("mail", order))
    return "sent"


@effect("ship", key="{order}")
def ship(order: str) -> str:
    raise Refused("no carrier")


@function(no_retry=OutOfStock)
def check_stock(order: str) -> None:
    raise OutOfStock(order)


def paused(run: RunHandle[Any]) -> dict[str, Any]:
    until(lambda: run.state == "paused")
    found: dict[str, Any] = run.status()["paused"]
    return found


async def _typo(ctx: WorkflowContext) -> None:
    receipt: Any = await ctx.step(charge, "o")
    receipt.uppr()


async def _key(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    _ = dict[str, str]()["gone"]


async def _unlisted(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    raise OutOfStock("none")


async def _wrapped(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    try:
        await ctx.step(ship, "o")
    except Refused as refused:
        raise RuntimeError("cannot ship") from refused


async def _result(ctx: WorkflowContext) -> int:
    await ctx.step(charge, "o")
    return "no number"  # type: ignore[return-value]


@function
def counts() -> int:
    return "seven"  # type: ignore[return-value]


async def _step_result(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    await ctx.step(counts)


async def _cancelled(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    raise asyncio.CancelledError


async def _input_changed(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    await ctx.step(changed, "o", 1)
    await ctx.step(changed, "o", 2)


@effect("changed", key="{order}")
def changed(order: str, number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_typo, "AttributeError: 'str' object has no attribute 'uppr'"),
        (_key, "KeyError: 'gone'"),
        (_unlisted, "OutOfStock: none"),
        (_wrapped, "RuntimeError: cannot ship"),
        (_result, "cannot be stored as int"),
        (_step_result, "cannot be stored as int"),
        (_cancelled, "CancelledError"),
        (_input_changed, "(input_changed)"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_req_o8_an_exception_that_nobody_declared_pauses_and_refunds_nothing(
    store_url: str, body: Any, said: str
) -> None:
    with opened(store_url) as app:
        run = app.start(workflow(name="order")(body), key="o")
        pause = paused(run)
        assert pause["code"] == "body_raised"
        assert said in pause["detail"]
        assert "Traceback" in pause["raised"]["trace"] or body is _cancelled
        assert WORLD.calls == [("charge", "o")]
        with pytest.raises(RunPaused):
            run.result(timeout=20)


def test_req_v6_corrected_code_continues_a_run_that_its_typo_paused(store_url: str) -> None:
    async def broken(ctx: WorkflowContext) -> str:
        receipt: Any = await ctx.step(charge, "o")
        return str(receipt.uppr())

    with opened(store_url) as app:
        app.offer(workflow(name="order")(broken), release="r")
        run = app.start("order", key="o")
        paused(run)
        run.retry(reason="too early")
        assert paused(run)["code"] == "body_raised", "the same code pauses again"

    async def mended(ctx: WorkflowContext) -> str:
        receipt = await ctx.step(charge, "o")
        await ctx.step(mail, "o")
        return receipt.upper()

    with opened(store_url) as app:
        app.offer(workflow(name="order")(mended), release="r")
        again = app.start("order", key="o")
        assert (again.id, again.attached) == (run.id, True), "its key is not used up"
        run = app.run(run.id)
        run.retry(reason="a typo was corrected")
        assert run.result(timeout=20) == "CH-O"
    assert WORLD.calls == [("charge", "o"), ("mail", "o")]


async def _fail(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    raise Fail("no stock")


async def _refused(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    await ctx.step(ship, "o")


async def _final_step(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    await ctx.step(check_stock, "o")


async def _timeout(ctx: WorkflowContext) -> None:
    await ctx.step(charge, "o")
    await ctx.wait_for_signal("never", timeout="1ms")


@pytest.mark.parametrize(
    ("body", "options", "kind"),
    [
        (_fail, {}, Fail),
        (_unlisted, {"fails": OutOfStock}, OutOfStock),
        (_unlisted, {"fails": (KeyError, OutOfStock)}, OutOfStock),
        (_typo, {"on_error": "fail"}, AttributeError),
        (_refused, {}, Refused),
        (_final_step, {}, OutOfStock),
        (_timeout, {}, semel.TimedOut),
    ],
)
def test_a_declared_failure_fails_and_undoes(
    store_url: str, body: Any, options: dict[str, Any], kind: type[Exception]
) -> None:
    with opened(store_url) as app:
        run = app.start(workflow(name="order", **options)(body), key="o")
        with pytest.raises(kind):
            run.result(timeout=20)
        assert run.state == "failed"
    assert WORLD.calls == [("charge", "o"), ("refund", "ch-o")]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with 3.11")
@pytest.mark.parametrize("slips", [False, True])
def test_a_group_fails_only_if_all_of_it_was_declared(sqlite_url: str, slips: bool) -> None:
    @workflow(name="group")
    async def group(ctx: WorkflowContext) -> None:
        async def slip() -> None:
            await ctx.step(charge, "o")
            raise KeyError("slip") if slips else Fail("on purpose")

        async def refused() -> None:
            await ctx.step(ship, "o")

        raised = await asyncio.gather(slip(), refused(), return_exceptions=True)
        group_of: Any = builtins.__dict__["BaseExceptionGroup"]
        raise group_of("both", [one for one in raised if one is not None])

    with opened(sqlite_url) as app:
        run = app.start(group)
        until(lambda: run.state in ("paused", "failed"))
        assert run.state == ("paused" if slips else "failed")
    assert ("refund", "ch-o") in WORLD.calls or slips


def test_a_run_that_its_typo_paused_is_undone_when_it_is_cancelled(store_url: str) -> None:
    with opened(store_url) as app:
        run = app.start(workflow(name="order")(_typo), key="o")
        paused(run)
        run.cancel(reason="the customer is gone")
        until(lambda: run.state == "cancelled")
    assert WORLD.calls == [("charge", "o"), ("refund", "ch-o")]


def test_a_child_that_pauses_keeps_its_parent_waiting(sqlite_url: str) -> None:
    child = workflow(name="child")(_typo)

    @workflow(name="parent")
    async def parent(ctx: WorkflowContext) -> str:
        try:
            await ctx.child(child, key="c")
        except ChildFailed as failed:
            return type(failed.__cause__).__name__
        return "done"

    with opened(sqlite_url) as app:
        run = app.start(parent)
        until(lambda: app.start("child", key="c").state == "paused")
        assert run.state in ("waiting", "running")
        assert WORLD.calls == [("charge", "o")]


def test_an_input_that_the_code_does_not_take_pauses(sqlite_url: str) -> None:
    @workflow(name="typed")
    async def strict(ctx: WorkflowContext, number: int) -> int:
        return number

    @workflow(name="typed")
    async def lenient(ctx: WorkflowContext, number: int | str) -> int:
        return int(str(number).split()[0])

    with opened(sqlite_url) as app:
        app.offer(strict, release="r")
        run = app.start("typed", "7 pieces")
        assert paused(run)["code"] == "input_invalid"
    with opened(sqlite_url) as app:
        app.offer(lenient, release="r")
        run = app.run(run.id)
        run.retry(reason="it takes texts now")
        assert run.result(timeout=20) == 7


def test_what_an_entity_was_left_for_does_not_stand_in_the_way_of_corrected_code(
    sqlite_url: str,
) -> None:
    def body(slips: bool) -> Any:
        async def acts(ctx: WorkflowContext) -> str:
            async with ctx.entity("desk"):
                receipt = await ctx.step(charge, "o")
                if slips:
                    raise KeyError("slip")
                await ctx.step(mail, "o")
                return receipt

        return workflow(name="acts")(acts)

    with opened(sqlite_url) as app:
        app.offer(body(True), release="r")
        run = app.start("acts")
        paused(run)
    with opened(sqlite_url) as app:
        app.offer(body(False), release="r")
        run = app.run(run.id)
        run.retry(reason="mended")
        assert run.result(timeout=20) == "ch-o"


def test_what_a_workflow_declares_is_checked_when_it_is_declared() -> None:
    with pytest.raises(ValueError, match="on_error"):
        workflow(on_error="ignore")(_typo)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        workflow(fails=("OutOfStock",))(_typo)  # type: ignore[arg-type]


@pytest.mark.parametrize("catches", [False, True])
def test_req_o8_a_receipt_that_does_not_fit_pauses_and_a_given_value_continues(
    store_url: str, catches: bool
) -> None:
    @effect("mail", key="{order}")
    def null_mail(order: str) -> None:
        WORLD.do(("mail", order))

    async def body(ctx: WorkflowContext) -> str:
        await ctx.step(charge, "o")
        try:
            return await ctx.step(mail, "o")
        except Exception:
            if catches:
                raise Fail("whatever it was") from None
            raise

    with opened(store_url) as app:
        null_mail("o")
        run = app.start(workflow(name="order")(body), key="o")
        pause = paused(run)
        assert (pause["code"], pause["id"]) == ("receipt_mismatch", "mail#0")
        run.retry(reason="nothing has changed")
        assert paused(run)["code"] == "receipt_mismatch"
        run.skip("mail#0", "m-7", reason="looked it up")
        assert run.result(timeout=20) == "m-7"
    assert WORLD.calls == [("mail", "o"), ("charge", "o")]


@effect("letter", key="{order}", deadline="5s")
def letter(order: str) -> Sent:
    WORLD.do(("letter", order))
    raise RuntimeError("cut")


def test_req_o8_a_truthful_word_about_a_doubt_refunds_nobody(store_url: str) -> None:
    @workflow(name="order")
    async def order(ctx: WorkflowContext) -> str:
        await ctx.step(charge, "o")
        return (await ctx.step(letter, "o")).id

    with opened(store_url) as app:
        run = app.start(order, key="o")
        until(lambda: (app.find(letter, "o") or {}).get("state") == "in_doubt")
        until(lambda: run.state == "waiting")  # it has noted itself in the effect's row
        for receipt in (None, {"no": "id"}, "m-7"):
            with pytest.raises(semel.SemelError) as refused:
                app.resolve("letter", "o", "done", receipt=receipt, reason="it is there")
            assert refused.value.code == "receipt_invalid"
            assert '"id"' in refused.value.detail, "it says what fits"
        app.resolve("letter", "o", "done", receipt={"id": "m-7"}, reason="it is there")
        assert run.result(timeout=20) == "m-7"
    assert WORLD.calls == [("charge", "o"), ("letter", "o")]
