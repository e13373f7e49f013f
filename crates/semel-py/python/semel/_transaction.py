"""Effects that are rows in the ledger's own database: rows and receipt in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import _current
from ._contracts import Contract
from ._declare import Effect, Fingerprint
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
        shape = self._effect.shape
        try:
            args, kwargs = shape.arguments(shape.load(transaction.input))
            instance = self._effect.instance
            before = (transaction,) if instance is None else (instance, transaction)
            value = self._effect.function(*before, *args, **kwargs)
            transaction.commit(shape.result.dump(value))
        except BaseException as error:
            self.error = error
            transaction.undo(text(error))
            if not isinstance(error, Exception):
                raise


class Transactional(Effect[P, R]):
    """An effect that is rows in the ledger's own database."""

    takes_ctx = True

    def refuse_in_run(self) -> None:
        """In a run the rows would be outside of the journal's commit."""
        detail = "a transaction is called directly, or from a step; it is no step of its own"
        raise SemelError(detail, code="transaction_unsupported")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        app = _current.app()
        key, _, input = self.bind(args, kwargs)
        result: R = app.call_transaction(self, key, input)
        return result


def transaction(
    action: str | None = None, *, key: KeySource, fingerprint: Fingerprint | None = None
) -> Callable[[Callable[Concatenate[Any, P], R]], Transactional[P, R]]:
    """Declares an effect that is rows in the ledger's own database: exactly once.

    The function's first parameter is the transaction: `tx.execute(sql, parameters)` returns rows.
    It is sync, takes at most a second, and may not touch the ledger's own tables. What it returns
    is the receipt; an exception undoes everything."""

    def decorate(function: Callable[..., R]) -> Transactional[P, R]:
        contract = Contract("transaction")
        return Transactional(function, action, key=key, fingerprint=fingerprint, contract=contract)

    return decorate
