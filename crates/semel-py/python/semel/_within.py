"""Transactions of the user's own: the engine speaks over a psycopg connection.

Python carries statements and rows as they are, in binary, and runs the function when it is told to.
What is asked, in which order, and what an answer means is the engine's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._errors import SemelError, from_native, text
from ._host import SLICE_MS, Begin
from ._native import Asking, Inbox, Within

if TYPE_CHECKING:
    import psycopg

    from ._ledger import App
    from ._native import Asked
    from ._transaction import Transactional

    Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

Function = Callable[[str], Any]
"""The user's function on the user's connection: from the stored input to the receipt, as JSON."""

_CANCELED = "57014"
"""What Postgres says of a statement that was cut short on request."""


class Errand:
    """One call on a connection that was handed in: does what the engine asks for, there."""

    def __init__(self, connection: Connection, function: Function) -> None:
        from ._psycopg import Carrier

        self._carrier = Carrier(connection)
        self._function = function
        self._wish: Asking | Within | None = None
        self._error: BaseException | None = None
        self._is_interrupted = False

    def run(self, begin: Begin) -> Any:
        """Serves the engine in this thread until it has answered."""
        inbox, told = Inbox(), None
        asked = begin(inbox, 0)
        try:
            while told is None:
                with self._going_on():
                    for kind, *parts in inbox.drain():
                        if kind == "told":
                            told = parts
                        elif isinstance(wish := self._next(parts), Asking):
                            self._carrier.carry(wish)
                        else:
                            wish.done(self._function(wish.input))
                    self._wish = None
                    if told is None:
                        inbox.wait(SLICE_MS)
        finally:
            asked.cancel()
            inbox.close()
        return self._told(*told)

    async def serve(self, begin: Begin) -> Any:
        """Serves the engine in this task until it has answered."""
        inbox, told, rung = Inbox(), None, asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(inbox.fileno(), rung.set)
        asked = begin(inbox, 0)
        try:
            while told is None:
                with self._going_on():
                    rung.clear()
                    for kind, *parts in inbox.drain():
                        if kind == "told":
                            told = parts
                        elif isinstance(wish := self._next(parts), Asking):
                            await self._carrier.carry_async(wish)
                        else:
                            wish.done(await self._function(wish.input))
                    self._wish = None
                    if told is None:
                        await rung.wait()
        finally:
            asked.cancel()
            loop.remove_reader(inbox.fileno())
            inbox.close()
        return self._told(*told)

    def _next(self, parts: list[Any]) -> Asking | Within:
        """What the engine wants done next."""
        wish: Asking | Within = parts[0]
        self._wish = wish
        if self._error is not None and isinstance(wish, Within):
            # Interrupted before its turn, the function does not run any more.
            raise self._error
        return wish

    @contextmanager
    def _going_on(self) -> Generator[None]:
        """Tells the engine what went wrong, and lets it leave the transaction as it was.

        What the server says of a statement is the engine's to judge. What the function raises, or
        whoever interrupts the call, is for the caller in the end. Interrupted again, the call ends
        at once: the effect is in doubt then, should the caller commit."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            wish, self._wish = self._wish, None
            is_interrupt = not isinstance(error, Exception)
            if isinstance(wish, Asking) and not is_interrupt:
                wish.fail(getattr(error, "sqlstate", None), text(error))
                return
            if wish is None and (self._is_interrupted or not is_interrupt):
                raise
            self._error, self._is_interrupted = error, is_interrupt
            if isinstance(wish, Asking):
                wish.fail(_CANCELED, text(error))
            elif wish is not None:
                wish.fail(text(error), self._carrier.is_closed)

    def _told(self, _token: int, value: Any, error: Any) -> Any:
        if self._error is not None:
            raise self._error
        if error is not None:
            raise from_native(*error)
        return value


def call(
    app: App, effect: Transactional[..., Any], connection: Connection, key: list[str], input: str
) -> Any:
    """A direct call of a transaction on a connection that was handed in."""
    result = effect.shape.result

    def begin(inbox: Inbox, token: int) -> Asked:
        return app.native.transact_within(inbox, token, effect.declaration, key, input)

    async def function_async(input: str) -> str:
        return result.dump(await effect.run_on(connection, input))

    async def receipt_later() -> Any:
        return result.load(await Errand(connection, function_async).serve(begin))

    if effect.shape.is_async:
        return receipt_later()
    errand = Errand(connection, lambda input: result.dump(effect.run_on(connection, input)))
    return result.load(errand.run(begin))


def check(connection: Any, is_async: bool) -> None:
    """Refuses a connection that the function cannot work on."""
    detail = "a transaction on Postgres needs psycopg 3.2 or newer"
    try:
        import psycopg
    except ImportError:
        raise SemelError(detail, code="transaction_unsupported") from None
    if not hasattr(psycopg, "RawCursor"):
        raise SemelError(detail, code="transaction_unsupported")
    kind = psycopg.AsyncConnection if is_async else psycopg.Connection
    if not isinstance(connection, kind):
        function = "an `async def`" if is_async else "a plain function"
        detail = f"{function} runs on a psycopg.{kind.__name__}, not on {type(connection)!r}"
        raise SemelError(detail, code="transaction_unsupported")
