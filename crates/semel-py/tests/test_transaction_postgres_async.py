"""`@transaction` on an `async def`, with psycopg's AsyncConnection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import psycopg
import pytest
from postgres_kit import Ledger
from psycopg import AsyncConnection, Connection
from pydantic import BaseModel
from semel import AsyncSemel, SemelError, transaction

ran: list[str] = []
"""The orders for which the function ran, in this test."""


class Booking(BaseModel):
    """What a booking comes to."""

    order: str
    number: int


@transaction("book-order", key="{order}")
async def book(tx: AsyncConnection[Any], order: str) -> Booking:
    """Books an order."""
    ran.append(order)
    await tx.execute("INSERT INTO orders VALUES (%s)", [order])
    return Booking(order=order, number=len(ran))


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger of its own for each test."""
    ran.clear()
    made = Ledger()
    yield made
    made.drop()


async def connect(ledger: Ledger, **options: Any) -> AsyncConnection[Any]:
    """An async connection of the user's."""
    return await AsyncConnection.connect(**ledger.options, **options)


async def refused(code: str, call: Callable[..., Awaitable[Any]], *args: Any) -> SemelError:
    """What a call is refused with."""
    with pytest.raises(SemelError) as caught:
        await call(*args)
    assert caught.value.code == code, caught.value
    return caught.value


def run(story: Coroutine[Any, Any, None]) -> None:
    """Plays a story in an event loop of its own."""
    asyncio.run(asyncio.wait_for(story, 30))


def test_rows_and_receipt_are_there_when_the_user_has_committed(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as connection:
            assert await book.on(connection)("a") == Booking(order="a", number=1)
            assert ledger.orders() == [] and ledger.state("a") is None
            await connection.commit()
            assert ledger.orders() == ["a"] and ledger.state("a") == "done"
            again = await book.on(connection)(order="a")
            assert isinstance(again, Booking) and again.number == 1
        assert ran == ["a"]

    run(story())


def test_it_works_with_an_async_semel(ledger: Ledger) -> None:
    ledger.app.close()

    async def story() -> None:
        async with AsyncSemel(ledger.url) as app, await connect(ledger) as connection:
            await book.on(connection)("a")
            await connection.commit()
            found = await app.find("book-order", "a")
            assert found is not None and found["state"] == "done"

    run(story())
    assert ledger.orders() == ["a"]


def test_rolled_back_by_the_user_nothing_happened(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as connection:
            await book.on(connection)("a")
            await connection.rollback()
            assert ledger.orders() == [] and ledger.state("a") is None
            assert (await book.on(connection)("a")).number == 2

    run(story())
    assert ledger.orders() == ["a"]


def test_an_exception_leaves_the_transaction_as_it_was(ledger: Ledger) -> None:
    @transaction("book-order", key="{order}")
    async def stumble(tx: AsyncConnection[Any], order: str) -> None:
        await tx.execute("INSERT INTO orders VALUES (%s)", [order])
        await tx.execute("SELECT 1 / 0")

    async def story() -> None:
        async with await connect(ledger) as connection:
            await connection.execute("INSERT INTO orders VALUES ('before')")
            with pytest.raises(psycopg.errors.DivisionByZero):
                await stumble.on(connection)("a")
            assert (await book.on(connection)("b")).number == 1

    run(story())
    assert ledger.orders() == ["b", "before"] and ledger.state("a") is None


def test_whoever_asks_meanwhile_waits_and_the_loop_goes_on(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as first, await connect(ledger) as second:
            booked = await book.on(first)("a")
            waiting = asyncio.ensure_future(book.on(second)("a"))
            await asyncio.to_thread(ledger.until_blocked, second)
            assert not waiting.done()
            await first.commit()
            assert await waiting == booked

    run(story())
    assert ran == ["a"] and ledger.orders() == ["a"]


def test_many_at_once_on_one_loop(ledger: Ledger) -> None:
    async def one(key: str) -> Booking:
        async with await connect(ledger) as connection:
            return await book.on(connection)(key)

    async def story() -> None:
        keys = [str(number % 5) for number in range(20)]
        bookings = await asyncio.gather(*map(one, keys))
        assert [booking.order for booking in bookings] == keys

    run(story())
    assert sorted(ran) == ledger.orders() == ["0", "1", "2", "3", "4"]


def test_a_key_that_stays_held_is_busy(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as first, await connect(ledger) as second:
            await book.on(first)("a")
            await refused("store_busy", book.on(second), "a")
            assert (await book.on(second)("b")).order == "b"
            await second.commit()
            await first.rollback()

    run(story())
    assert ledger.orders() == ["b"]


def test_cancelled_in_the_function_the_transaction_is_as_it_was(ledger: Ledger) -> None:
    wrote = asyncio.Event()

    @transaction("book-order", key="{order}")
    async def hang(tx: AsyncConnection[Any], order: str) -> None:
        await tx.execute("INSERT INTO orders VALUES (%s)", [order])
        wrote.set()
        await asyncio.Event().wait()

    async def story() -> None:
        async with await connect(ledger) as connection:
            await connection.execute("INSERT INTO orders VALUES ('before')")
            task = asyncio.ensure_future(hang.on(connection)("a"))
            await wrote.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await book.on(connection)("a")).number == 1, "it runs anew"

    run(story())
    assert ledger.orders() == ["a", "before"] and ledger.state("a") == "done"


def test_cancelled_while_it_waits_for_the_key_the_transaction_is_as_it_was(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as first, await connect(ledger) as second:
            await book.on(first)("a")
            await second.execute("INSERT INTO orders VALUES ('mine')")
            task = asyncio.ensure_future(book.on(second)("a"))
            await asyncio.to_thread(ledger.until_blocked, second)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await second.commit()
            await first.rollback()

    run(story())
    assert ran == ["a"] and ledger.orders() == ["mine"]


def test_cancelled_before_its_turn_the_function_does_not_run(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger) as connection:
            task = asyncio.ensure_future(book.on(connection)("a"))
            # It has asked the engine by now, whose first statement is not here yet.
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ran == []
            assert (await book.on(connection)("a")).number == 1

    run(story())
    assert ledger.orders() == ["a"]


def test_autocommit_needs_a_transaction_around_it(ledger: Ledger) -> None:
    async def story() -> None:
        async with await connect(ledger, autocommit=True) as connection:
            await refused("transaction_failed", book.on(connection), "a")
            async with connection.transaction():
                await book.on(connection)("a")
                assert ledger.orders() == []

    run(story())
    assert ledger.orders() == ["a"]


def test_function_and_connection_are_both_async_or_neither(ledger: Ledger) -> None:
    @transaction("book-order", key="{order}")
    def plain(tx: Connection[Any], order: str) -> str:
        raise AssertionError("it does not run")

    async def story() -> None:
        with ledger.connect() as sync, pytest.raises(SemelError, match="AsyncConnection") as caught:
            book.on(sync)
        assert caught.value.code == "transaction_unsupported"
        async with await connect(ledger) as connection:
            with pytest.raises(SemelError, match="a plain function runs on"):
                plain.on(connection)
        with pytest.raises(SemelError, match=r"await book\.on\(connection\)") as caught:
            await book("a")
        assert caught.value.code == "transaction_unsupported"

    run(story())
    assert ran == []
