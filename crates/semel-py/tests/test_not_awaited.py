"""A command that the body never awaited: the run pauses and names it, and nothing is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import World, opened, until
from semel import RunHandle, WorkflowContext, effect, function, workflow

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()


@effect("mail", key="{order}")
def mail(order: str) -> str:
    WORLD.do(("mail", order))
    return "sent"


@function
def look(number: int) -> int:
    return number


async def _step(ctx: WorkflowContext) -> None:
    ctx.step(mail, "o")


async def _kept(ctx: WorkflowContext) -> int:
    kept = ctx.step(mail, "o")
    await ctx.step(look, 1)
    return len([kept])


async def _task(ctx: WorkflowContext) -> int:
    asyncio.create_task(ctx.step(mail, "o"))  # noqa: RUF006
    return 1


async def _open_task(ctx: WorkflowContext) -> int:
    async def waits() -> None:
        await ctx.wait_for_signal("never")
        await ctx.step(mail, "o")

    asyncio.create_task(waits())  # noqa: RUF006
    return await ctx.step(look, 1)


async def _group(ctx: WorkflowContext) -> None:
    ctx.gather(ctx.step(mail, "o"), ctx.step(look, 1))


async def _map(ctx: WorkflowContext) -> None:
    ctx.map(mail, ["o"])


async def _waits(ctx: WorkflowContext) -> None:
    ctx.sleep("1h")
    ctx.wait_for_signal("paid")
    ctx.wait_for_user("ann", "well?", choices=["yes"])
    ctx.approve("pay")
    ctx.callback("agent")
    ctx.child("other")
    ctx.entity("desk")


WAITS = "sleep#0, signal paid#0, signal ann#0, pay#0, agent#0, other#0, entity desk#0"


def paused(run: RunHandle[Any]) -> dict[str, Any]:
    until(lambda: run.state in ("paused", "done", "failed"))
    found: dict[str, Any] = run.status()["paused"]
    return found


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize(
    ("body", "names"),
    [
        (_step, "mail#0"),
        (_kept, "mail#0"),
        (_task, "mail#0"),
        (_open_task, "signal never#0"),
        (_group, "mail#0, look#0"),
        (_map, "map mail"),
        (_waits, WAITS),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_req_o8_a_body_that_ends_with_commands_never_awaited_pauses_and_names_them(
    sqlite_url: str, body: Any, names: str
) -> None:
    with opened(sqlite_url) as app:
        run = app.start(workflow(name="forgets")(body))
        pause = paused(run)
        assert pause["code"] == "not_awaited"
        assert pause["detail"] == f"the body ended and never awaited: {names}"
    assert WORLD.calls == [], "nothing was sent"


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_with_its_await_the_run_goes_on(store_url: str) -> None:
    async def mended(ctx: WorkflowContext) -> str:
        return await ctx.step(mail, "o")

    with opened(store_url) as app:
        app.offer(workflow(name="forgets")(_step), release="r")
        run = app.start("forgets")
        paused(run)
    with opened(store_url) as app:
        app.offer(workflow(name="forgets")(mended), release="r")
        run = app.run(run.id)
        run.retry(reason="awaited now")
        assert run.result(timeout=20) == "sent"
    assert WORLD.calls == [("mail", "o")]


async def _raced(ctx: WorkflowContext) -> int:
    first = asyncio.create_task(ctx.step(look, 1))
    other = asyncio.create_task(ctx.wait_for_signal("never"))
    await asyncio.wait([first, other], return_when=asyncio.FIRST_COMPLETED)
    return first.result()


async def _cancelled(ctx: WorkflowContext) -> int:
    never_begun = asyncio.create_task(ctx.wait_for_signal("never"))
    never_begun.cancel()
    begun = asyncio.create_task(ctx.wait_for_signal("never"))
    number = await ctx.step(look, 1)
    begun.cancel()
    return number


async def _later(ctx: WorkflowContext) -> int:
    one, two = ctx.step(look, 1), ctx.step(look, 0)
    return sum(await ctx.gather(two, one))


async def _done_unseen(ctx: WorkflowContext) -> int:
    asyncio.create_task(ctx.step(look, 7))  # noqa: RUF006
    await ctx.sleep("50ms")
    return await ctx.step(look, 1)


async def _mapped(ctx: WorkflowContext) -> int:
    async with ctx.entity("desk"):
        return sum(await ctx.map(look, [1, 0]))


async def _chosen(ctx: WorkflowContext) -> int:
    first = asyncio.create_task(ctx.wait_for_user("ann", "well?", choices=["yes"]))
    done = asyncio.ensure_future(ctx.step(look, 1))
    for one in asyncio.as_completed([first, done]):
        await one
        break
    return 1


@pytest.mark.parametrize("body", [_raced, _cancelled, _later, _done_unseen, _mapped, _chosen])
def test_what_lost_a_race_was_cancelled_or_has_finished_was_not_forgotten(
    sqlite_url: str, body: Any
) -> None:
    with opened(sqlite_url) as app:
        run = app.start(workflow(name="minds")(body))
        assert run.result(timeout=20) == 1
