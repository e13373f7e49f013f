"""Children: runs that a run starts and waits for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import World, until
from semel import (
    AsyncSemel,
    ChildFailed,
    RunCancelled,
    Semel,
    SemelError,
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


@dataclass
class Page:
    number: int
    text: str


@effect("print-page", key="{book}/{number}")
def print_page(book: str, number: int) -> Any:
    return WORLD.do(("print", book, number))


@workflow
async def page(ctx: WorkflowContext, book: str, number: int) -> Page:
    await ctx.step(print_page, book, number)
    return Page(number, f"{book}:{ctx.key}")


@workflow
async def book(ctx: WorkflowContext, name: str) -> list[Any]:
    first = await ctx.child(page, name, 1)
    second = await ctx.child(page, book=name, number=2, key=["page", name, "2"])
    both = await ctx.gather(ctx.child(page, name, 3), ctx.child(page, name, 4))
    return [type(first).__name__, first.number, second.text, *(one.number for one in both)]


def test_children_are_named_by_their_parent_or_by_a_key(any_app: Semel) -> None:
    handle = any_app.start(book, "ink", key="ink")
    assert handle.result(timeout=30) == ["Page", 1, "ink:page,ink,2", 3, 4]
    assert sorted(WORLD.calls) == [("print", "ink", number) for number in (1, 2, 3, 4)]
    attached = any_app.start(page, "ink", 2, key=["page", "ink", "2"])
    assert attached.attached, "the same key is the same run, whoever starts it"
    derived = any_app.start(page, "ink", 1, key=[handle.id, "page#0"])
    assert derived.attached and derived.result(timeout=20).number == 1


@workflow
async def slow_page(ctx: WorkflowContext, number: int) -> int:
    WORLD.do(("slow", number, ctx.is_replaying))
    await ctx.wait_for_signal("turn")
    return number * 10


@workflow
async def slow_book(ctx: WorkflowContext) -> int:
    return await ctx.child(slow_page, 4, key="slow-4")


def test_a_restart_finds_the_same_child(store_url: str) -> None:
    app = Semel(store_url)
    handle = app.start(slow_book, key="slow")
    until(lambda: handle.state == "waiting" and WORLD.calls)
    app.close()
    app = Semel(store_url)
    again = app.start(slow_book, key="slow")
    child = app.start("slow_page", 4, key="slow-4")
    assert again.attached and child.attached
    child.signal("turn")
    assert again.result(timeout=30) == 40
    app.close()


class Torn(Exception):
    pass


@workflow(fails=Torn)
async def torn(ctx: WorkflowContext, how: str) -> None:
    if how == "raise":
        raise Torn("page 7")
    await ctx.wait_for_signal("never")


@workflow
async def careful(ctx: WorkflowContext, how: str, is_caught: bool) -> Any:
    try:
        await ctx.child(torn, how, key=["torn", how])
    except ChildFailed as failed:
        if not is_caught:
            raise
        await ctx.sleep("10ms")
        return [failed.code, type(failed.__cause__).__name__, "torn" in failed.detail]


def test_a_child_that_fails_says_so_with_its_exception(app: Semel) -> None:
    assert app.start(careful, "raise", True).result(timeout=20) == ["child_failed", "Torn", True]
    with pytest.raises(ChildFailed, match="page 7"):
        app.start(careful, "raise", False).result(timeout=20)


def test_a_child_that_is_cancelled_has_failed(app: Semel) -> None:
    handle = app.start(careful, "wait", True)
    until(lambda: handle.state == "waiting")
    app.start("torn", "wait", key=["torn", "wait"]).cancel("not needed")
    assert handle.result(timeout=20) == ["child_failed", "NoneType", True]


def test_a_cancel_goes_down(app: Semel) -> None:
    handle = app.start(careful, "wait", False)
    until(lambda: handle.state == "waiting")
    child = app.start("torn", "wait", key=["torn", "wait"])
    assert child.attached
    handle.cancel("over")
    with pytest.raises(RunCancelled):
        handle.result(timeout=20)
    assert child.state == "cancelled"


def test_a_child_has_a_deadline(app: Semel) -> None:
    @workflow(name="impatient")
    async def impatient(ctx: WorkflowContext) -> str:
        try:
            await ctx.child(torn, "wait", deadline="200ms")
        except ChildFailed as failed:
            return failed.code
        return "came"

    assert app.start(impatient).result(timeout=30) == "child_failed"


def test_a_child_by_name_and_what_is_none(app: Semel) -> None:
    @function
    def plain() -> int:
        return 1

    @workflow(name="by-name")
    async def by_name(ctx: WorkflowContext) -> list[Any]:
        told: list[Any] = []
        for wrong in (lambda: ctx.child(plain), lambda: ctx.child("page", 1, 2)):  # type: ignore
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(SemelError) as caught:
            await ctx.child("no name", 1)
        told.append(caught.value.code)
        told.append(await ctx.child("page", {"book": "b", "number": 1}))
        return told

    app.offer(page)
    code, got = app.start(by_name).result(timeout=20)
    assert code == "name_invalid"
    assert got["number"] == 1


def test_children_in_an_event_loop(sqlite_url: str) -> None:
    async def main() -> list[Any]:
        async with AsyncSemel(sqlite_url) as app:
            return await (await app.start(book, "pen")).result(timeout=20)

    assert asyncio.run(main())[:2] == ["Page", 1]


def test_children_raced_by_asyncio(app: Semel) -> None:
    @workflow(name="race")
    async def race(ctx: WorkflowContext) -> int:
        child, sleep = ctx.child(page, "race", 1), ctx.sleep("1h")
        for first in asyncio.as_completed([child, sleep]):
            await first
            return 1
        return 0

    assert app.start(race).result(timeout=20) == 1
