"""What is declared on an `async def` is one to everybody who asks, and looks like the function."""

from __future__ import annotations

import asyncio
import functools
import inspect
import typing
from typing import Any

import httpx
import pytest
from conftest import until
from fastapi import BackgroundTasks, FastAPI
from semel import AsyncSemel, Semel, StepContext, WorkflowContext, effect, function, model, workflow

SENDS: list[Any] = []


@effect("coroutine", key="{id}")
async def send(id: str, amount: int = 1) -> int:
    """Sends it."""
    SENDS.append((id, amount))
    return amount


@effect("plain", key="{id}")
def plain(id: str) -> str:
    """Sends it, too."""
    return id


@effect("contextual", key="{id}")
async def contextual(ctx: StepContext, id: str) -> str:
    """Is given a context."""
    return id


@function
async def step(id: str) -> str:
    """A step."""
    return id


@model
async def ask(prompt: str) -> str:
    """A model."""
    return prompt


@workflow
async def flow(ctx: WorkflowContext, id: str) -> str:
    """A workflow."""
    return id


class Desk:
    """Has effects of its own."""

    @effect("desk", key="{id}")
    async def send(self, id: str) -> str:
        """Sends from a desk."""
        return id


class Sender:
    """Is called like a function."""

    async def __call__(self, id: str) -> str:
        return id


ASYNC: dict[str, Any] = {
    "effect": send,
    "with a context": contextual,
    "function": step,
    "model": ask,
    "workflow": flow,
    "of a class": Desk.send,
    "bound": Desk().send,
    "partial": functools.partial(send, amount=2),
    "of a partial": effect("of-partial", key="{id}")(functools.partial(send.function, amount=2)),
    "of an object": effect("of-object", key="{id}")(Sender()),
}


@pytest.mark.parametrize("name", ASYNC)
def test_what_is_awaited_is_a_coroutine_function(name: str) -> None:
    assert inspect.iscoroutinefunction(ASYNC[name])
    assert asyncio.iscoroutinefunction(ASYNC[name])


def test_what_is_not_awaited_is_no_coroutine_function() -> None:
    assert not inspect.iscoroutinefunction(plain)
    assert not asyncio.iscoroutinefunction(plain)


def test_it_looks_like_the_function() -> None:
    for declared in (send, plain, step, ask, flow):
        own, wrapped = vars(declared), declared.function
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
            assert own[name] == getattr(wrapped, name)
        assert declared.__wrapped__ is wrapped  # type: ignore[union-attr]
        assert inspect.signature(declared) == inspect.signature(wrapped)
        assert typing.get_type_hints(declared) == typing.get_type_hints(wrapped)


def test_its_signature_is_that_of_its_caller() -> None:
    assert list(inspect.signature(contextual).parameters) == ["id"]
    assert list(inspect.signature(Desk().send).parameters) == ["id"]
    assert list(inspect.signature(functools.partial(send, "1")).parameters) == ["amount"]


def test_req_o8_background_tasks_await_an_async_effect(sqlite_url: str) -> None:
    SENDS.clear()
    web = FastAPI()

    @web.post("/orders/{id}")
    async def order(id: str, tasks: BackgroundTasks) -> str:
        tasks.add_task(send, id, amount=7)
        return "accepted"

    async def use() -> None:
        async with AsyncSemel(sqlite_url) as app:
            transport = httpx.ASGITransport(app=web)
            async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
                assert (await client.post("/orders/1")).status_code == 200
            found = await app.find(send, "1")
            assert found is not None and found["state"] == "done"

    asyncio.run(use())
    assert SENDS == [("1", 7)]


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_generator_is_refused_where_it_is_declared(kind: str) -> None:
    async def many_later(id: str) -> Any:
        yield id

    def many(id: str) -> Any:
        yield id

    with pytest.raises(TypeError, match="is a generator"):
        effect("many", key="{id}")(many_later if kind == "async" else many)
    with pytest.raises(TypeError, match="is a generator"):
        function(many_later if kind == "async" else many)


def test_leaving_waits_for_an_attempt_whose_caller_has_left(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    SENDS.clear()

    async def main() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        @effect("left", key="{id}")
        async def slow(id: str) -> str:
            begun.set()
            await gate.wait()
            SENDS.append(id)
            return id

        async with AsyncSemel(sqlite_url):
            caller = asyncio.create_task(slow("1"))
            await begun.wait()
            caller.cancel()
            asyncio.get_running_loop().call_later(0.2, gate.set)

    asyncio.run(main())
    assert SENDS == ["1"]
    assert "left/1" in caplog.text
    app = Semel(sqlite_url)
    found = until(lambda: app.find("left", "1"))
    assert found["state"] == "done"
    app.close()


def test_leaving_with_a_patience_waits_no_longer(sqlite_url: str) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        @effect("hangs", key="{id}")
        async def hangs(id: str) -> str:
            begun.set()
            await asyncio.Event().wait()
            return id

        app = await AsyncSemel(sqlite_url)
        caller = asyncio.create_task(hangs("1"))
        await begun.wait()
        caller.cancel()
        await app.close(patience="10ms")

    asyncio.run(main())


def test_whoever_awaits_without_asyncio_is_told_what_is_needed(sqlite_url: str) -> None:
    with Semel(sqlite_url) as app:
        call = send("trio")
        with pytest.raises(RuntimeError, match="as under trio, use Semel"):
            call.send(None)  # type: ignore[attr-defined]
    app.close()
