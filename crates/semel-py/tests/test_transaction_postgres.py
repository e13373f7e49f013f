"""`@transaction` on a psycopg connection that the user hands in and commits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_kit import Booking, Ledger, book, ran, refused
from psycopg import Connection
from semel import Semel, transaction


@transaction("book-order", key="{order}")
def fail(tx: Connection[Any], order: str) -> None:
    """Books an order, and then thinks better of it."""
    tx.execute("INSERT INTO orders VALUES (%s)", [order])
    raise KeyError(order)


@transaction("book-order", key="{order}")
def stumble(tx: Connection[Any], order: str) -> None:
    """Books an order, with a statement that Postgres refuses behind it."""
    tx.execute("INSERT INTO orders VALUES (%s)", [order])
    tx.execute("SELECT 1 / 0")


@transaction("book-order", key="{order}")
def swallow(tx: Connection[Any], order: str) -> str:
    """Goes on as if nothing had been, after a statement has failed."""
    try:
        tx.execute("SELECT 1 / 0")
    except psycopg.Error:
        return order
    raise AssertionError("it was divided by zero")


@transaction("book-order", key="{order}")
def commit_inside(tx: Connection[Any], order: str) -> str:
    """Ends the transaction, which is not its own to end."""
    tx.commit()
    return order


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger of its own for each test."""
    ran.clear()
    made = Ledger()
    yield made
    made.drop()


def test_rows_and_receipt_are_there_when_the_user_has_committed(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        connection.execute("INSERT INTO orders VALUES ('before')")
        assert book.on(connection)("a") == Booking(order="a", number=1)
        assert ledger.orders() == [], "visible before the commit"
        assert ledger.state("a") is None
        connection.commit()
        assert ledger.orders() == ["a", "before"]
        assert ledger.state("a") == "done"


def test_a_repeat_gets_the_typed_receipt_and_runs_nothing(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        first = book.on(connection)("a")
        assert book.on(connection)(order="a") == first, "in the same transaction"
        connection.commit()
        assert book.on(connection)("a") == first, "in the next"
    with ledger.connect() as other:
        again = book.on(other)("a")
    assert isinstance(again, Booking) and again == first
    assert ran == ["a"] and ledger.orders() == ["a"]


def test_rolled_back_by_the_user_nothing_happened(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        book.on(connection)("a")
        connection.rollback()
        assert ledger.orders() == [] and ledger.state("a") is None
        assert book.on(connection)("a").number == 2, "it runs anew"
    assert ledger.orders() == ["a"]


@pytest.mark.parametrize(
    ("function", "kind"), [(fail, KeyError), (stumble, psycopg.errors.DivisionByZero)]
)
def test_an_exception_leaves_the_transaction_as_it_was(
    ledger: Ledger, function: Any, kind: type[Exception]
) -> None:
    with ledger.connect() as connection:
        connection.execute("SET LOCAL lock_timeout = '7s'")
        connection.execute("INSERT INTO orders VALUES ('before')")
        with pytest.raises(kind):
            function.on(connection)("a")
        assert connection.execute("SHOW lock_timeout").fetchall() == [("7s",)]
        connection.execute("INSERT INTO orders VALUES ('after')")
        assert book.on(connection)("b").order == "b"
    assert ledger.orders() == ["after", "b", "before"]
    assert ledger.state("a") is None


def test_a_function_sees_the_lock_timeout_of_the_user(ledger: Ledger) -> None:
    @transaction("look", key="{order}")
    def look(tx: Connection[Any], order: str) -> str:
        return str(tx.execute("SHOW lock_timeout").fetchall()[0][0])

    with ledger.connect() as connection:
        connection.execute("SET LOCAL lock_timeout = '7s'")
        assert look.on(connection)("a") == "7s"
        assert connection.execute("SHOW lock_timeout").fetchall() == [("7s",)]


def test_a_statement_that_failed_unnoticed_commits_nothing(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        error = refused("transaction_failed", swallow.on(connection), "a")
        assert "a statement of the function failed" in error.detail
        connection.execute("INSERT INTO orders VALUES ('after')")
    assert ledger.orders() == ["after"] and ledger.state("a") is None


def test_a_function_that_commits_leaves_an_attempt_that_blocks_the_next(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        error = refused("transaction_failed", commit_inside.on(connection), "a")
        assert "ended the transaction" in error.detail
        connection.rollback()
        refused("in_progress", book.on(connection), "a")
    assert ran == []


def test_whoever_asks_meanwhile_waits_and_gets_the_receipt(ledger: Ledger) -> None:
    with ledger.connect() as first, ledger.connect() as second, ThreadPoolExecutor(1) as pool:
        booked = book.on(first)("a")
        waiting = pool.submit(book.on(second), "a")
        ledger.until_blocked(second)
        assert not waiting.done()
        first.commit()
        assert waiting.result(timeout=20) == booked
    assert ran == ["a"] and ledger.orders() == ["a"]


def test_whoever_asks_meanwhile_runs_it_when_the_first_is_undone(ledger: Ledger) -> None:
    with ledger.connect() as first, ledger.connect() as second, ThreadPoolExecutor(1) as pool:
        book.on(first)("a")
        waiting = pool.submit(book.on(second), "a")
        ledger.until_blocked(second)
        first.rollback()
        assert waiting.result(timeout=20).number == 2
    assert ran == ["a", "a"] and ledger.orders() == ["a"]


def test_a_key_that_stays_held_is_busy_after_two_seconds(ledger: Ledger) -> None:
    with ledger.connect() as first, ledger.connect() as second:
        book.on(first)("a")
        second.execute("INSERT INTO orders VALUES ('mine')")
        started = time.monotonic()
        refused("store_busy", book.on(second), "a")
        assert time.monotonic() - started >= 1.9
        assert book.on(second)("b").order == "b", "the transaction is still usable"
        second.commit()
        first.rollback()
    assert ledger.orders() == ["b", "mine"]


def test_a_savepoint_of_the_user_undoes_it(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        connection.execute("INSERT INTO orders VALUES ('before')")
        with connection.transaction(force_rollback=True):
            book.on(connection)("a")
    assert ledger.orders() == ["before"] and ledger.state("a") is None


def test_a_connection_that_is_lost_in_the_function_leaves_nothing(ledger: Ledger) -> None:
    @transaction("book-order", key="{order}")
    def lose(tx: Connection[Any], order: str) -> None:
        tx.execute("INSERT INTO orders VALUES (%s)", [order])
        ledger.execute(f"SELECT pg_terminate_backend({tx.info.backend_pid})")
        tx.execute("SELECT 1")

    connection = ledger.connect()
    with pytest.raises(psycopg.OperationalError):
        lose.on(connection)("a")
    assert connection.closed
    assert ledger.orders() == [] and ledger.state("a") is None
    with ledger.connect() as another:
        assert book.on(another)("a").number == 1


def test_an_interrupt_undoes_and_leaves_the_transaction_usable(ledger: Ledger) -> None:
    @transaction("book-order", key="{order}")
    def interrupted(tx: Connection[Any], order: str) -> None:
        tx.execute("INSERT INTO orders VALUES (%s)", [order])
        raise KeyboardInterrupt

    with ledger.connect() as connection:
        connection.execute("INSERT INTO orders VALUES ('before')")
        with pytest.raises(KeyboardInterrupt):
            interrupted.on(connection)("a")
    assert ledger.orders() == ["before"] and ledger.state("a") is None


def test_an_interrupt_while_it_waits_for_the_key_leaves_the_transaction_usable(
    ledger: Ledger,
) -> None:
    with ledger.connect() as first, ledger.connect() as second:
        book.on(first)("a")
        second.execute("INSERT INTO orders VALUES ('mine')")

        def interrupt() -> None:
            ledger.until_blocked(second)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            book.on(second)("a")
        interrupter.join()
        second.execute("INSERT INTO orders VALUES ('still')")
        second.commit()
        first.rollback()
    assert ran == ["a"] and ledger.orders() == ["mine", "still"]


def test_a_method_works_on_a_connection_too(ledger: Ledger) -> None:
    class Shop:
        prefix = "shop"

        @transaction("book-order", key="{order}")
        def book(self, tx: Connection[Any], order: str) -> str:
            tx.execute("INSERT INTO orders VALUES (%s)", [f"{self.prefix}-{order}"])
            return order

    with ledger.connect() as connection:
        assert Shop().book.on(connection)("a") == "a"
    assert ledger.orders() == ["shop-a"]


def test_each_store_says_how_its_transactions_are_called(ledger: Ledger, tmp_path: Path) -> None:
    error = refused("transaction_unsupported", book, "a")
    assert ".on(connection)" in error.detail
    sqlite = Semel(f"sqlite:{tmp_path / 'semel.db'}")
    try:
        with ledger.connect() as connection, sqlite:
            error = refused("transaction_unsupported", book.on(connection), "a")
            assert "SQLite" in error.detail
    finally:
        sqlite.close()
    assert ran == []


_CHILD = """
import sys
import psycopg
from semel import Semel, transaction

url, server, schema = sys.argv[1:]

@transaction("book-order", key="{order}")
def book(tx, order: str) -> str:
    tx.execute("INSERT INTO orders VALUES (%s)", [order])
    return order

app = Semel(url)
connection = psycopg.connect(server, options=f"-c search_path={schema}")
book.on(connection)("a")
print("booked", flush=True)
sys.stdin.read()
connection.commit()
"""


def test_killed_between_function_and_commit_neither_row_nor_receipt(ledger: Ledger) -> None:
    server = ledger.options["conninfo"]
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, ledger.url, server, ledger.schema],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"booked\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    with ledger.connect() as connection:
        # It waits for whatever the server still has of the dead process.
        assert book.on(connection)("a").number == 1
        connection.rollback()
    assert ledger.orders() == [] and ledger.state("a") is None
