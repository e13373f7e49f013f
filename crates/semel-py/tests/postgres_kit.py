"""What the tests on Postgres share: a ledger in a schema of its own, and a table beside it."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from postgres_server import postgres_server
from psycopg import Connection, sql
from pydantic import BaseModel
from semel import Semel, SemelError, transaction

_numbers = itertools.count(1)


@dataclass
class Ledger:
    """A schema with a ledger and a table of the user's, `orders`."""

    schema: str = field(
        default_factory=lambda: f"py_{os.getpid()}_{next(_numbers)}_{secrets.token_hex(4)}"
    )

    def __post_init__(self) -> None:
        self.app = Semel(f"{self.url}&migrate=true")
        self.execute("CREATE TABLE orders (id text PRIMARY KEY)")

    @property
    def url(self) -> str:
        """The address of the ledger."""
        sign = "&" if "?" in postgres_server() else "?"
        return f"{postgres_server()}{sign}schema={self.schema}"

    @property
    def options(self) -> dict[str, Any]:
        """What a connection of the user's is made with."""
        return {"conninfo": postgres_server(), "options": f"-c search_path={self.schema}"}

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the user's."""
        return psycopg.connect(**self.options, **options)

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """Runs a statement as a stranger, who sees what is committed only."""
        with psycopg.connect(**self.options, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def orders(self) -> list[str]:
        """The user's rows, as a stranger sees them."""
        return [id for (id,) in self.execute("SELECT id FROM orders ORDER BY id")]

    def state(self, key: str, action: str = "book-order") -> str | None:
        """Where an effect stands, as a stranger sees it."""
        found = self.app.find(action, key)
        return None if found is None else str(found["state"])

    def until_blocked(self, connection: Any) -> None:
        """Waits until the server says that a connection waits for a lock."""
        text = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            f"AND pid = {connection.info.backend_pid}"
        )
        until = time.monotonic() + 20
        while not self.execute(text):
            assert time.monotonic() < until, "it waits for nobody"
            time.sleep(0.005)

    def drop(self) -> None:
        """Leaves nothing behind."""
        self.app.close()
        with psycopg.connect(postgres_server(), autocommit=True) as connection:
            name = sql.Identifier(self.schema)
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))


ran: list[str] = []
"""The orders for which the function ran, in this test."""


class Booking(BaseModel):
    """What a booking comes to."""

    order: str
    number: int


@transaction("book-order", key="{order}")
def book(tx: Connection[Any], order: str) -> Booking:
    """Books an order."""
    ran.append(order)
    tx.execute("INSERT INTO orders VALUES (%s)", [order])
    return Booking(order=order, number=len(ran))


def refused(code: str, call: Any, *args: Any) -> SemelError:
    """What a call is refused with."""
    with pytest.raises(SemelError) as caught:
        call(*args)
    assert caught.value.code == code, caught.value
    return caught.value
