"""Entities: who may act on a thing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import World, until
from semel import AsyncSemel, Semel, WorkflowContext, effect, workflow

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


@effect("note", key="{run}/{what}")
def note(run: str, what: str) -> Any:
    return WORLD.do((run, what))


@workflow
async def acts(ctx: WorkflowContext, name: str) -> int:
    async with ctx.entity("ticket:42") as entity:
        await ctx.step(note, name, "in")
        await ctx.wait_for_signal("go")
        await ctx.step(note, name, "out")
    await ctx.wait_for_signal("end")
    return entity.fence


def test_req_c5_one_run_acts_at_a_time_whatever_its_key(any_app: Semel) -> None:
    runs = {name: any_app.start(acts, name, key=name) for name in ("a", "b")}
    until(lambda: WORLD.calls)
    first = WORLD.calls[0][0]
    other = "b" if first == "a" else "a"
    until(lambda: runs[other].state == "waiting")
    assert len(WORLD) == 1, "the other one waits outside"
    runs[first].signal("go")
    until(lambda: len(WORLD) == 3)
    assert WORLD.calls[2] == (other, "in"), "it is let in before the first run ends"
    runs[other].signal("go")
    for handle in runs.values():
        handle.signal("end")
    assert runs[other].result(timeout=20) > runs[first].result(timeout=20), "the fence grows"
    assert [what for _, what in WORLD.calls] == ["in", "out", "in", "out"]


def test_req_c5_a_restart_neither_leaves_nor_lets_anybody_in(store_url: str) -> None:
    app = Semel(store_url)
    first = app.start(acts, "a", key="a")
    until(lambda: first.state == "waiting")
    second = app.start(acts, "b", key="b")
    until(lambda: second.state == "waiting")
    app.close()
    app = Semel(store_url)
    app.offer(acts)
    second = app.run(second.id)
    second.signal("go")
    second.signal("end")
    first = app.run(first.id)
    until(lambda: first.state == "waiting" and second.state == "waiting")
    assert WORLD.calls == [("a", "in")], "the body was put away, and that is no leaving"
    first.signal("go")
    first.signal("end")
    assert (first.result(timeout=20), second.result(timeout=20)) == (1, 2)
    app.close()


class Slip(Exception):
    pass


def test_an_exception_leaves(app: Semel) -> None:
    @workflow(name="slips")
    async def slips(ctx: WorkflowContext) -> list[int]:
        fences: list[int] = []
        for _ in range(3):
            try:
                async with ctx.entity("desk") as desk:
                    fences.append(desk.fence)
                    raise Slip
            except Slip:
                pass
        return fences

    assert app.start(slips).result(timeout=20) == [1, 2, 3]


def test_awaited_it_is_held_until_it_is_left(app: Semel) -> None:
    @workflow(name="holds")
    async def holds(ctx: WorkflowContext) -> list[Any]:
        desk = await ctx.entity("desk")
        shelf = await ctx.entity("shelf")
        await desk.leave()
        await desk.leave()
        again = await ctx.entity("desk")
        return [desk.fence, again.fence, shelf.fence, repr(desk)]

    assert app.start(holds).result(timeout=20) == [1, 2, 1, "<entity desk fence=1>"]
    assert app.start(holds).result(timeout=20)[:3] == [3, 4, 2], "the end of a run leaves"


def test_leaving_early_is_leaving_once(app: Semel) -> None:
    @workflow(name="early")
    async def early(ctx: WorkflowContext) -> int:
        async with ctx.entity("desk") as desk:
            await desk.leave()
            other = await ctx.entity("desk")
        async with ctx.entity("shelf") as shelf:
            return other.fence * 10 + shelf.fence

    assert app.start(early).result(timeout=20) == 21


def test_a_task_that_is_cancelled_leaves(app: Semel) -> None:
    @workflow(name="cancels")
    async def cancels(ctx: WorkflowContext) -> int:
        async def holds() -> None:
            async with ctx.entity("desk"):
                await ctx.wait_for_signal("never")

        task = asyncio.create_task(holds())
        await ctx.sleep("50ms")
        task.cancel()
        async with ctx.entity("desk") as desk:
            return desk.fence

    assert app.start(cancels).result(timeout=20) == 2


@workflow
async def gives_up(ctx: WorkflowContext) -> str:
    async def holds() -> None:
        async with ctx.entity("ticket:42"):
            raise AssertionError("it was not waited for any more")

    task = asyncio.create_task(holds())
    await ctx.wait_for_signal("give up")
    task.cancel()
    await ctx.wait_for_signal("end")
    return f"{task.cancelled()}"


def test_a_task_that_is_cancelled_in_the_queue_does_not_stand_in_the_way(store_url: str) -> None:
    app = Semel(store_url)
    first = app.start(acts, "a", key="a")
    until(lambda: len(WORLD) == 1)
    second = app.start(gives_up, key="g")
    until(lambda: second.state == "waiting")
    second.signal("give up")
    third = app.start(acts, "b", key="b")
    until(lambda: third.state == "waiting")
    app.close()
    app = Semel(store_url)
    app.offer(acts)
    app.offer(gives_up)
    first, second, third = (app.run(one.id) for one in (first, second, third))
    for one in (first, third):
        one.signal("go")
        one.signal("end")
    assert (first.result(timeout=20), third.result(timeout=20)) == (1, 3)
    second.signal("end")
    assert second.result(timeout=20) == "True"
    app.close()


def test_entities_in_an_event_loop(sqlite_url: str) -> None:
    @workflow(name="loop")
    async def loop(ctx: WorkflowContext) -> int:
        async with ctx.entity("x") as x:
            return x.fence

    async def main() -> list[int]:
        async with AsyncSemel(sqlite_url) as app:
            handles = [await app.start(loop) for _ in range(5)]
            return sorted([await handle.result(timeout=20) for handle in handles])

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]
