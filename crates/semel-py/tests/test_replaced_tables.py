"""The ledger's rows are put back under a live process: a transaction is not done again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from postgres_kit import Ledger
from psycopg import Connection
from semel import SemelError, transaction

TABLES = [
    *("identity", "meta", "returns", "lost", "effects", "runs", "journal", "inbox", "blobs"),
    *("blob_uses", "cards", "outbox"),
]


@transaction("add", key="{id}")
def add(tx: Connection[Any], id: str) -> str:
    """Adds a row of the user's, beside the ledger."""
    tx.execute("INSERT INTO added VALUES (%s)", [id])
    return id


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger of its own for each test."""
    made = Ledger()
    made.execute("CREATE TABLE added (id text)")
    yield made
    made.drop()


def _in_one(ledger: Ledger, statements: list[str]) -> None:
    with ledger.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _add(connection: Connection[Any]) -> str:
    try:
        receipt = add.on(connection)("1")
        connection.commit()
    except SemelError as error:
        connection.rollback()
        return error.code
    return receipt


@pytest.mark.parametrize("clear", ["TRUNCATE {}", "DELETE FROM {}"])
@pytest.mark.parametrize("connections", ["one", "another"])
def test_inv_i27_a_transaction_on_tables_that_were_put_back_is_not_done_again(
    ledger: Ledger, clear: str, connections: str
) -> None:
    _in_one(ledger, [f"CREATE TABLE copy_{name} AS TABLE {name}" for name in TABLES])
    with ledger.connect() as connection:
        assert _add(connection) == "1"
        fill = "INSERT INTO {0} OVERRIDING SYSTEM VALUE TABLE copy_{0}"
        _in_one(ledger, [form.format(name) for form in (clear, fill) for name in TABLES])
        told = [_add(connection)] if connections == "one" else []
        with ledger.connect() as other:
            told += [_add(other) for _ in range(3)]
    assert set(told) <= {"in_doubt", "store_busy"} and told[-1] == "in_doubt", told
    assert ledger.execute("SELECT id FROM added") == [("1",)]
    assert ledger.execute("SELECT count(*) FROM returns WHERE closed_at IS NULL") == [(1,)]
    ledger.app.resolve("add", "1", "done", receipt="1", reason="the row is there", actor="ann")
    with ledger.connect() as connection:
        assert _add(connection) == "1"
    assert ledger.execute("SELECT id FROM added") == [("1",)]
