"""Effects that are rows in the ledger's own SQLite: rows and receipt, both or none."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from conftest import World
from semel import (
    InputChanged,
    Refused,
    Semel,
    SemelError,
    WorkflowContext,
    transaction,
    workflow,
)
from semel._transaction import TransactionWork


@dataclass
class Booking:
    number: int
    amount: Decimal


class SoldOut(Exception):
    pass


@pytest.fixture(autouse=True)
def table(app: Semel) -> None:
    @transaction("create-table", key="once")
    def create(tx: Any) -> None:
        tx.execute("CREATE TABLE booking (number INTEGER PRIMARY KEY, shop TEXT, raw BLOB)")

    create()


def rows(url: str) -> list[Any]:
    """What is in the table, seen by another connection."""
    with sqlite3.connect(url.removeprefix("sqlite:")) as connection:
        return connection.execute("SELECT number, shop FROM booking ORDER BY number").fetchall()


@transaction("book", key="{order_id}")
def book(tx: Any, order_id: str, amount: Decimal) -> Booking:
    [(count,)] = tx.execute("SELECT count(*) FROM booking")
    tx.execute("INSERT INTO booking VALUES (?, ?, NULL)", [count + 1, order_id])
    return Booking(count + 1, amount)


def test_req_l14_rows_and_receipt_are_one_commit(app: Semel, sqlite_url: str) -> None:
    first = book("a", Decimal("1.10"))
    assert first == Booking(1, Decimal("1.10"))
    assert book("a", Decimal("1.10")) == first, "typed, the second time as well"
    assert book("b", Decimal(2)) == Booking(2, Decimal(2))
    assert rows(sqlite_url) == [(1, "a"), (2, "b")]
    found = app.find(book, "a")
    assert found is not None
    assert (found["state"], found["contract"]["name"]) == ("done", "transaction")
    with pytest.raises(InputChanged):
        book("a", Decimal(9))


def test_an_exception_undoes_everything_and_is_its_own(app: Semel, sqlite_url: str) -> None:
    world = World()

    @transaction("careless", key="{order_id}")
    def careless(tx: Any, order_id: str) -> str:
        tx.execute("INSERT INTO booking VALUES (?, 'x', NULL)", [len(world) + 1])
        if world.do() == {"number": 1}:
            raise SoldOut("nothing left")
        return "booked"

    with pytest.raises(SoldOut, match="nothing left"):
        careless("a")
    assert rows(sqlite_url) == []
    assert (app.find(careless, "a") or {"state": None})["state"] != "in_doubt"
    assert careless("a") == "booked", "nothing happened, so it may be tried again"
    assert rows(sqlite_url) == [(2, "x")]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), Refused("never")])
def test_whatever_ends_it_undoes_it(app: Semel, sqlite_url: str, error: BaseException) -> None:
    @transaction("cut", key="{order_id}")
    def cut(tx: Any, order_id: str) -> None:
        tx.execute("INSERT INTO booking VALUES (1, 'x', NULL)")
        raise error

    with pytest.raises(type(error)):
        cut("a")
    assert rows(sqlite_url) == []
    assert book("b", Decimal(1)).number == 1, "the ledger goes on"


def test_a_statement_that_fails_undoes_everything(app: Semel, sqlite_url: str) -> None:
    @transaction("bad", key="{order_id}")
    def bad(tx: Any, order_id: str) -> None:
        tx.execute("INSERT INTO booking VALUES (1, 'x', NULL)")
        tx.execute("INSERT INTO booking VALUES (1, 'again', NULL)")

    with pytest.raises(SemelError, match="UNIQUE") as caught:
        bad("a")
    assert caught.value.code == "transaction_failed"
    assert rows(sqlite_url) == []


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "SELEKT",
        "DELETE FROM effects",
        "DROP TABLE journal",
        "VACUUM",
    ],
)
def test_statements_that_it_may_not_run(app: Semel, sqlite_url: str, sql: str) -> None:
    @transaction("bad", key="{order_id}")
    def bad(tx: Any, order_id: str) -> None:
        tx.execute("INSERT INTO booking VALUES (1, 'x', NULL)")
        tx.execute(sql)

    with pytest.raises(SemelError):
        bad("a")
    assert rows(sqlite_url) == []
    assert book("b", Decimal(1)).number == 1


def test_values_go_in_and_come_out(app: Semel) -> None:
    @transaction("values", key="{id}")
    def values(tx: Any, id: str) -> list[bool]:
        given = [1, -(2**63), 1.5, "text \U0001f600", b"\x00\xff", None]
        found = tx.execute("SELECT ?, ?, ?, ?, ?, ?", given)
        with pytest.raises(SemelError) as caught:
            tx.execute("SELECT ?", [object()])
        return [found == [tuple(given)], caught.value.code == "input_invalid"]

    assert values("a") == [True, True]


def test_one_that_takes_too_long_is_undone(app: Semel, sqlite_url: str) -> None:
    @transaction("slow", key="{order_id}")
    def slow(tx: Any, order_id: str, seconds: float) -> str:
        tx.execute("INSERT INTO booking VALUES (1, 'x', NULL)")
        time.sleep(seconds)
        return "booked"

    with pytest.raises(SemelError) as caught:
        slow("a", 1.5)
    assert caught.value.code.startswith("transaction_")
    assert rows(sqlite_url) == []
    assert book("b", Decimal(1)).number == 1


def test_req_o8_a_transaction_that_comes_late_to_its_thread_is_not_begun(
    app: Semel, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, gate = threading.Event(), threading.Event()
    began: list[str] = []
    run = TransactionWork.run

    def late(work: TransactionWork, tx: Any) -> None:
        if not held.is_set():
            held.set()
            assert gate.wait(20)
        run(work, tx)

    @transaction("late", key="{order_id}")
    def books_late(tx: Any, order_id: str) -> str:
        began.append(order_id)
        tx.execute("INSERT INTO booking VALUES (7, 'late', NULL)")
        return "booked"

    monkeypatch.setattr(TransactionWork, "run", late)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(books_late, "a")
        assert held.wait(20)
        assert book("b", Decimal(1)).number == 1, "its time is over when the next one has a turn"
        gate.set()
        with pytest.raises(SemelError) as caught:
            first.result(20)
    assert (caught.value.code, began) == ("transaction_too_long", [])
    assert books_late("a") == "booked"
    assert (rows(sqlite_url), began) == ([(1, "b"), (7, "late")], ["a"])


def test_a_transaction_that_is_over_is_over(app: Semel, sqlite_url: str) -> None:
    kept: list[Any] = []

    @transaction("keeps", key="{order_id}")
    def keeps(tx: Any, order_id: str) -> None:
        kept.append(tx)

    keeps("a")
    with pytest.raises(SemelError, match="over"):
        kept[0].execute("INSERT INTO booking VALUES (1, 'late', NULL)")
    assert rows(sqlite_url) == []


def test_a_receipt_that_cannot_be_stored_undoes_it(app: Semel, sqlite_url: str) -> None:
    @transaction("odd", key="{order_id}")
    def odd(tx: Any, order_id: str) -> Any:
        tx.execute("INSERT INTO booking VALUES (1, 'x', NULL)")
        return object()

    with pytest.raises(SemelError) as caught:
        odd("a")
    assert caught.value.code == "input_invalid"
    assert rows(sqlite_url) == []


def test_threads_that_book_at_once_book_once(app: Semel, sqlite_url: str) -> None:
    barrier = threading.Barrier(6)

    def call(place: int) -> Booking:
        barrier.wait()
        return book("same" if place % 2 else f"own-{place}", Decimal(1))

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(call, range(6)))
    assert len({one.number for one in done[1::2]}) == 1
    assert len(rows(sqlite_url)) == 4


def test_what_is_no_transaction_is_refused(app: Semel, tmp_path: Any) -> None:
    @transaction("later", key="{id}")
    async def later(tx: Any, id: str) -> None: ...

    with pytest.raises(SemelError) as caught:
        later("a")  # type: ignore[unused-coroutine]
    assert caught.value.code == "transaction_unsupported"


@workflow
async def books(ctx: WorkflowContext, inside: bool) -> Any:
    if inside:
        found = await ctx.step("book", lambda: book("a", Decimal(1)))
        return found["number"]
    return await ctx.step(book, "a", Decimal(1))  # type: ignore[arg-type]


def test_in_a_run_it_is_called_by_a_step(app: Semel, sqlite_url: str) -> None:
    assert app.start(books, True).result(timeout=20) == 1
    assert app.start(books, True, key="again").result(timeout=20) == 1
    with pytest.raises(SemelError, match="transaction_unsupported") as caught:
        app.start(books, False).result(timeout=20)
    assert caught.value.code == "run_paused", "a slip of its author's"
    assert rows(sqlite_url) == [(1, "a")]
