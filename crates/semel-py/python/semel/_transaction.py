"""Effects that are rows in the ledger's own database: rows and receipt in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import _current, _within
from ._contracts import Contract
from ._effect import Effect, Fingerprint
from ._errors import SemelError, text
from ._template import KeySource

if TYPE_CHECKING:
    from ._native import Transaction

P = ParamSpec("P")
R = TypeVar("R")


class TransactionWork:
    """The function, run with the transaction that it writes through."""

    def __init__(self, effect: Transactional[..., Any]) -> None:
        self._effect = effect
        self.error: BaseException | None = None

    def run(self, transaction: Transaction) -> None:
        """Runs the function; its rows are committed with what it returns, or not at all."""
        try:
            if not transaction.begin():
                return  # it was over before this thread came to it
            value = self._effect.run_on(transaction, transaction.input)
            transaction.commit(self._effect.shape.result.dump(value))
        except BaseException as error:
            self.error = error
            transaction.undo(text(error))
            if not isinstance(error, Exception):
                raise
        finally:
            transaction.release()


class Transactional(Effect[P, R]):
    """An effect that is rows in the ledger's own database."""

    takes_ctx = True

    def refuse_in_run(self) -> None:
        """In a run the rows would be outside of the journal's commit."""
        raise _unsupported("a transaction is called directly, or from a step; it is no step itself")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        app = _current.app()
        if self.shape.is_async:
            raise _unsupported(
                f"an `async def` runs on a connection of yours, on Postgres: "
                f"`await {self.function.__name__}.on(connection)(…)` with a psycopg.AsyncConnection"
            )
        bound = self.bind(args, kwargs)
        result: R = app.call_transaction(self, bound.key, bound.input)
        return result

    def on(self, connection: _within.Connection) -> Callable[P, R]:
        """The same on a psycopg connection of yours to the ledger's Postgres, which you commit.

        The connection is the function's first parameter. Rows and receipt become visible when you
        commit, and neither does when you do not; until then whoever asks for the same key waits,
        and is told `store_busy` after two seconds. An exception undoes what the function did and
        leaves your transaction usable. An `async def` runs on an AsyncConnection, and is awaited.
        """
        is_async = self.shape.is_async
        _within.check(connection, is_async)

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            app = _current.app()
            bound = self.bind(args, kwargs)
            result: R = _within.call(app, self, connection, bound.key, bound.input)
            return result

        return call

    def run_on(self, transaction: Any, input: str) -> Any:
        """Calls the function with a transaction and the stored input."""
        args, kwargs = self.shape.arguments(self.shape.load(input))
        before = (transaction,) if self.instance is None else (self.instance, transaction)
        function: Any = self.function  # whose first parameter is not the caller's
        return function(*before, *args, **kwargs)


def _unsupported(detail: str) -> SemelError:
    return SemelError(detail, code="transaction_unsupported")


def transaction(
    action: str | None = None, *, key: KeySource, fingerprint: Fingerprint | None = None
) -> Callable[[Callable[Concatenate[Any, P], R]], Transactional[P, R]]:
    """Declares an effect that is rows in the ledger's own database: exactly once.

    The function's first parameter is the transaction. On SQLite it is Semel's own handle:
    `tx.execute(sql, parameters)` returns rows, the function is sync and takes at most a second. On
    Postgres it is the psycopg connection that `.on(connection)` was given; the function may be
    async. It may not touch the ledger's own tables, or end the transaction. What it returns is the
    receipt; an exception undoes everything."""

    def decorate(function: Callable[..., R]) -> Transactional[P, R]:
        contract = Contract("transaction")
        return Transactional(function, action, key=key, fingerprint=fingerprint, contract=contract)

    return decorate
