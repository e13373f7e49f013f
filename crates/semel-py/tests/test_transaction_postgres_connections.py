"""Which psycopg connections a `@transaction` may run on, and what others are told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from postgres_kit import Ledger, book, ran, refused
from psycopg import Connection
from psycopg.rows import dict_row
from semel import transaction


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger of its own for each test."""
    ran.clear()
    made = Ledger()
    yield made
    made.drop()


def test_a_connection_to_another_store_is_refused(ledger: Ledger) -> None:
    other = Ledger()
    try:
        with other.connect() as connection, ledger.app:
            # The same schema name, but the store of somebody else is in it.
            ours, theirs = ledger.schema, other.schema
            connection.execute(f"ALTER SCHEMA {ours} RENAME TO {ours}_x".encode())
            connection.execute(f"ALTER SCHEMA {theirs} RENAME TO {ours}".encode())
            error = refused("transaction_failed", book.on(connection), "a")
            assert "another database" in error.detail
            connection.rollback()
    finally:
        other.drop()
    assert ran == []


def test_a_connection_to_a_database_without_a_ledger_is_refused(ledger: Ledger) -> None:
    name = f"{ledger.schema}_empty"
    ledger.execute(f"CREATE DATABASE {name}")
    try:
        with ledger.connect(dbname=name) as connection:
            refused("store_missing", book.on(connection), "a")
            assert connection.execute("SELECT 1").fetchall() == [(1,)], "still usable"
    finally:
        ledger.execute(f"DROP DATABASE {name}")
    assert ran == []


def test_autocommit_needs_a_transaction_around_it(ledger: Ledger) -> None:
    with ledger.connect(autocommit=True) as connection:
        error = refused("transaction_failed", book.on(connection), "a")
        assert "autocommit" in error.detail and "connection.transaction()" in error.detail
        assert ran == [] and ledger.state("a") is None
        with connection.transaction():
            book.on(connection)("a")
            assert ledger.orders() == []
    assert ledger.orders() == ["a"] and ledger.state("a") == "done"


def test_a_connection_that_cannot_be_used_is_refused_before_anything(ledger: Ledger) -> None:
    connection = ledger.connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    assert "roll it back" in refused("transaction_failed", book.on(connection), "a").detail
    connection.rollback()
    with connection.pipeline():
        assert "pipeline" in refused("transaction_failed", book.on(connection), "a").detail
    connection.rollback()
    connection.close()
    refused("store_unavailable", book.on(connection), "a")
    refused("transaction_unsupported", book.on, object())
    assert ran == []


def test_a_psycopg_that_is_too_old_or_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psycopg, "RawCursor")
    assert "3.2 or newer" in refused("transaction_unsupported", book.on, object()).detail
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "3.2 or newer" in refused("transaction_unsupported", book.on, object()).detail


def test_how_the_connection_reads_rows_does_not_matter(ledger: Ledger) -> None:
    with ledger.connect(row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
        connection.prepare_threshold = 0
        assert book.on(connection)("a").number == 1
        assert book.on(connection)("b").number == 2
    assert ledger.orders() == ["a", "b"]


def test_text_of_any_script_is_kept_and_another_encoding_is_refused(ledger: Ledger) -> None:
    with ledger.connect() as connection:
        assert book.on(connection)("žluťoučký-κ-🐎").order == "žluťoučký-κ-🐎"
    assert ledger.state("žluťoučký-κ-🐎") == "done"
    with ledger.connect(client_encoding="latin1") as connection:
        assert "client_encoding" in refused("transaction_failed", book.on(connection), "ä").detail
    assert ran == ["žluťoučký-κ-🐎"] and ledger.state("ä") is None


def test_a_function_that_changes_the_encoding_commits_nothing(ledger: Ledger) -> None:
    @transaction("book-order", key="{order}")
    def change(tx: Connection[Any], order: str) -> str:
        tx.execute("SET LOCAL client_encoding = 'latin1'")
        return order

    with ledger.connect() as connection:
        assert "client_encoding" in refused("store_unavailable", change.on(connection), "ä").detail
        connection.rollback()
        assert book.on(connection)("ä").number == 1
    assert ledger.state("ä") == "done"
