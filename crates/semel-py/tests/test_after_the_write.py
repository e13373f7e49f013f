"""An error that comes after the write of an effect is no proof that nothing happened."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import semel
import semel.httpx
import semel.requests
from semel import InDoubt, NotApplied, Semel, SemelError, at_most_once, effect
from stand_ins import Provider


async def _post_async(url: str) -> None:
    async with semel.httpx.AsyncClient() as client:
        await client.post(url)


POSTS: dict[str, Callable[[str], Any]] = {
    "httpx": semel.httpx.post,
    "requests": semel.requests.post,
    "async": lambda url: asyncio.run(_post_async(url)),
}


def _refused() -> None:
    """Connects to where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    socket.create_connection(address)


@pytest.mark.parametrize("client", POSTS)
def test_a_refused_connection_after_the_write_leaves_a_doubt(app: Semel, client: str) -> None:
    @effect("after", key="{id}", contract=at_most_once, retries=3)
    def send(id: str, url: str) -> None:
        POSTS[client](url)
        _refused()

    with Provider() as provider:
        with pytest.raises(InDoubt):
            send("1", provider.url)
        assert len(provider.seen) == 1


@pytest.mark.parametrize("client", POSTS)
def test_before_the_write_it_is_proof(app: Semel, client: str) -> None:
    @effect("before", key="{id}", contract=at_most_once, retries=0)
    def send(id: str, url: str) -> None:
        _refused()
        POSTS[client](url)

    with Provider() as provider:
        with pytest.raises(SemelError) as told:
            send("1", provider.url)
        assert (told.value.code, provider.seen) == ("not_applied", [])


def test_what_the_function_says_itself_counts(app: Semel) -> None:
    @effect("own", key="{id}", contract=at_most_once, retries=1)
    def send(id: str, url: str) -> None:
        answer = semel.requests.post(url)
        raise NotApplied(f"{answer.status_code}, but the body says that it is closed")

    with Provider() as provider:
        with pytest.raises(SemelError, match="closed"):
            send("1", provider.url)
        assert len(provider.seen) == 2
