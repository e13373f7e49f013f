"""How the tests of clients get into an effect: by the real thing, on a ledger of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import semel
from semel import Semel, effect, native_key


@pytest.fixture(name="ledger")
def open_ledger(tmp_path: Path) -> Iterator[Semel]:
    """An open ledger, empty at first."""
    opened = Semel(f"sqlite:{tmp_path / 'semel.db'}")
    try:
        yield opened
    finally:
        opened.close()


def in_effect(call: Callable[[], Any], order: str = "order-1", retries: int = 0) -> Any:
    """Runs `call` as the one write of an effect; the same order is the same intent."""

    @effect("charge", key="{order}", contract=native_key(retention="24h"), retries=retries)
    def charge(order: str) -> Any:
        return call()

    return charge(order)


async def in_async_effect(
    call: Callable[[], Awaitable[Any]], order: str = "order-1", retries: int = 0
) -> Any:
    """The same for a coroutine function."""

    @effect("charge", key="{order}", contract=native_key(retention="24h"), retries=retries)
    async def charge(order: str) -> Any:
        return await call()

    return await charge(order)


def with_key(call: Callable[[], Any], order: str = "order-1") -> str:
    """Runs `call` in an effect and gives that effect's downstream key."""

    def call_and_tell() -> str:
        call()
        return semel.intent().downstream_key

    key: str = in_effect(call_and_tell, order)
    return key
