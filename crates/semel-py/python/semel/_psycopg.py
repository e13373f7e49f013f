"""Statements of the engine on a connection of psycopg's. Imported only when there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper, PyFormat
from psycopg.rows import tuple_row

from ._errors import SemelError

if TYPE_CHECKING:
    from ._native import Asking
    from ._within import Connection

_STATUS = pq.TransactionStatus


class Value(NamedTuple):
    """A value as Postgres reads it in binary, and the object id of its type."""

    type: int
    data: bytes | None


class ValueDumper(Dumper):
    """Hands a value on as it is."""

    format = pq.Format.BINARY

    def get_key(self, obj: Value, format: PyFormat) -> Any:
        """Values of one type share a dumper: it is the dumper that tells the type."""
        return (Value, obj.type)

    def upgrade(self, obj: Value, format: PyFormat) -> ValueDumper:
        """The dumper for the type of this value."""
        dumper = ValueDumper(Value)
        dumper.oid = obj.type
        return dumper

    def dump(self, obj: Value) -> bytes | None:
        """The value."""
        return obj.data


class Carrier:
    """Carries statements of the engine over a connection, in the transaction that is open there.

    By psycopg's own cursors: so a transaction begins as the connection is set to begin one, other
    threads on it wait, and an interrupt ends the statement."""

    def __init__(self, connection: Connection) -> None:
        _check(connection)
        self._connection = connection
        cursor: psycopg.RawCursor[Any] | psycopg.AsyncRawCursor[Any]
        if isinstance(connection, psycopg.AsyncConnection):
            cursor = psycopg.AsyncRawCursor(connection, row_factory=tuple_row)
        else:
            cursor = psycopg.RawCursor(connection, row_factory=tuple_row)
        cursor.adapters.register_dumper(Value, ValueDumper)
        self._cursor = cursor

    @property
    def is_closed(self) -> bool:
        """Whether nothing will come over the connection any more."""
        return self._connection.closed

    def carry(self, asking: Asking) -> None:
        """Runs a statement and gives its rows to the engine."""
        assert isinstance(self._cursor, psycopg.RawCursor)
        values = self._values(asking)
        self._cursor.execute(asking.text.encode(), values, prepare=False, binary=True)
        self._answer(asking)

    async def carry_async(self, asking: Asking) -> None:
        """Runs a statement and gives its rows to the engine."""
        assert isinstance(self._cursor, psycopg.AsyncRawCursor)
        values = self._values(asking)
        await self._cursor.execute(asking.text.encode(), values, prepare=False, binary=True)
        self._answer(asking)

    def _values(self, asking: Asking) -> list[Value]:
        # Each time: the function may have changed it.
        _check_encoding(self._connection)
        return [Value(type, data) for type, data in asking.values]

    def _answer(self, asking: Asking) -> None:
        result = self._cursor.pgresult
        if result is None:
            raise _refused("the connection is in pipeline mode")
        columns = range(result.nfields)
        lines = [[result.get_value(row, at) for at in columns] for row in range(result.ntuples)]
        asking.answer([result.ftype(at) for at in columns], lines)


def _check(connection: Connection) -> None:
    """Refuses a connection on which no transaction is open, or can be begun."""
    if connection.closed:
        raise SemelError("the connection is closed", code="store_unavailable")
    status = connection.info.transaction_status
    if status == _STATUS.IDLE and connection.autocommit:
        raise _refused(
            "the connection is in autocommit mode and in no transaction: rows and receipt would "
            "not be one commit. Call it within `with connection.transaction():`"
        )
    if status == _STATUS.INERROR:
        raise _refused("a statement of this transaction has failed: roll it back first")
    if status == _STATUS.ACTIVE:
        raise _refused("the connection is busy with another statement")
    if connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise _refused("the connection is in pipeline mode")
    _check_encoding(connection)


def _check_encoding(connection: Connection) -> None:
    """In binary, too, text is in the encoding of the client, and ours is always UTF-8."""
    if connection.pgconn.parameter_status(b"client_encoding") != b"UTF8":
        raise _refused("the connection's client_encoding has to be UTF8")


def _refused(detail: str) -> SemelError:
    return SemelError(detail, code="transaction_failed")
