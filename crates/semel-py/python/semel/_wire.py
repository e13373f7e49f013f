"""What one attempt did on the network, as far as this process can see it.

An error proves that nothing happened only if nothing was connected or written earlier in the same
attempt. So each attempt of an effect has a `Wire`: the calls of known clients, whether sockets of
its own were used, and what it gave to threads and processes. `_watch` fills it.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from types import ModuleType, TracebackType
from typing import Any, cast

# Clients in C: neither their connections nor their requests can be seen from Python.
UNSEEN_CLIENTS = {
    "MySQLdb",
    "confluent_kafka",
    "curl_cffi",
    "cx_Oracle",
    "grpc",
    "oracledb",
    "psycopg2",
    "pycurl",
    "pymssql",
    "pyodbc",
}


class Call:
    """One call of a client: from its start to its answer or error, with the client's own tries."""

    __slots__ = ("error", "is_harmless", "is_open", "is_touched", "status")

    def __init__(self) -> None:
        self.is_open = True
        """Not answered yet: what it has done, or will do, is unknown."""
        self.is_touched = False
        """A connection was made for it, or something was sent."""
        self.is_harmless = False
        """A client of this package vouches that it changed nothing."""
        self.status: int | None = None
        self.error: BaseException | None = None


class Wire:
    """What one attempt did on the network."""

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.calls: list[Call] = []
        self.pending: set[object] = set()
        """What runs in other threads for this attempt, and has not ended."""
        self.connections = 0
        """Connections that were made outside of any known client."""
        self.has_sent = False
        """Something was sent outside of any known client."""
        self.went_elsewhere = False
        """Something was given to a process, where nothing can be seen."""
        self.has_written = False
        """A file was opened to write. That is no request, so it matters where no error of a client
        says what failed."""
        self.is_unseen = False
        """It ran on an event loop that does not show its connections, such as uvloop."""
        self._function = function

    def allows(self, exc: BaseException) -> bool:
        """Whether `exc` may be a proof: everything seen of this attempt belongs to its own call,
        or is harmless."""
        if self.went_elsewhere or self.pending or _names_unseen_client(self._function):
            return False
        own = self._call_of(exc)
        if any(call for call in self.calls if call is not own and _counts(call)):
            return False
        if self.connections or self.has_sent:
            return own is None and self._is_first_handshake(exc)
        return own is not None or not self.is_unseen

    def is_untouched(self) -> bool:
        """Whether nothing was connected, sent, written or given away, and all of it was seen."""
        was_used = self.connections or self.has_sent or self.has_written or self.went_elsewhere
        if was_used or self.pending or self.is_unseen:
            return False
        return not any(map(_counts, self.calls))

    def _call_of(self, exc: BaseException) -> Call | None:
        same = list(_explained(exc))
        status = reported_status(exc)
        for call in reversed(self.calls):
            if any(call.error is it for it in same):
                return call
            if status is not None and call.status == status:
                return call
        return None

    def _is_first_handshake(self, exc: BaseException) -> bool:
        is_refused = isinstance(exc, ssl.SSLCertVerificationError)
        return is_refused and self.connections == 1 and not self.has_sent


_wire: ContextVar[Wire | None] = ContextVar("semel_wire", default=None)
_call: ContextVar[Call | None] = ContextVar("semel_call", default=None)


def current() -> Wire | None:
    """The wire of the running attempt, if the code of an effect runs here."""
    return _wire.get()


def begin(function: Callable[..., Any] | None, is_async: bool) -> None:
    """Starts a wire for an attempt, in the context that the attempt runs in."""
    from . import _watch  # which imports this file

    _watch.install()
    wire = Wire(function)
    if is_async:
        note_loop(wire, asyncio.get_running_loop())
    _wire.set(wire)
    _call.set(None)


def note_loop(wire: Wire, loop: object) -> None:
    """The attempt runs on this event loop. Only the selector loops use Python's sockets."""
    if not isinstance(loop, BaseSelectorEventLoop):
        wire.is_unseen = True


def end(before: Wire | None) -> None:
    """Ends the wire of the running attempt, and goes on with the one from before."""
    _wire.set(before)


def allows(exc: BaseException) -> bool:
    """Whether the running attempt, if any, lets `exc` be a proof that nothing happened."""
    wire = _wire.get()
    return wire is None or wire.allows(exc)


class Calling:
    """Around one call of a client. A call within a call belongs to the outer one."""

    __slots__ = ("_token", "_wire", "call")

    def __init__(self) -> None:
        self.call: Call | None = None
        self._token: Token[Call | None] | None = None

    def __enter__(self) -> Calling:
        wire = _wire.get()
        if wire is not None and _call.get() is None:
            self.call = self._begun(wire)
            self._wire = wire
            self._token = _call.set(self.call)
        return self

    def _begun(self, wire: Wire) -> Call:
        call = Call()
        wire.calls.append(call)
        return call

    def answered(self, result: Any) -> None:
        """The client returned this."""
        if self.call is not None:
            self.call.status = _status_of(result)

    def vouch(self) -> None:
        """It changed nothing, whatever else was seen of it."""
        if self.call is not None:
            self.call.is_harmless = True

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call = self.call
        if call is None or self._token is None:
            return
        call.is_open = False
        call.error = error or call.error
        if error is None or self._wire.is_unseen:
            call.is_touched = True
        try:
            _call.reset(self._token)
        except ValueError:  # the coroutine was ended in another context
            _call.set(None)


class Apart:
    """Around what is not the attempt's own doing, such as a handler of log lines."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _wire.set(None)

    def __exit__(self, *_: object) -> None:
        _wire.reset(self._token)


def note_connected() -> None:
    """A connection was made by the running code."""
    wire = _wire.get()
    if wire is not None:
        call = _call.get()
        if call is None:
            wire.connections += 1
        else:
            call.is_touched = True


def note_sent(sock: Any) -> None:
    """The running code is about to send on this socket."""
    wire = _wire.get()
    if wire is None:
        return
    call = _call.get()
    if (wire.has_sent if call is None else call.is_touched) or _is_pair(sock):
        return
    if call is None:
        wire.has_sent = True
    else:
        call.is_touched = True


def note_elsewhere() -> None:
    """The running code gives work to another process."""
    wire = _wire.get()
    if wire is not None:
        wire.went_elsewhere = True


def note_written() -> None:
    """The running code opens a file to write."""
    wire = _wire.get()
    if wire is not None:
        wire.has_written = True


def carried(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, to be called in another thread as part of the running attempt."""
    wire, call, ticket = _wire.get(), _call.get(), object()
    if wire is None:
        return work
    pending = wire.pending
    pending.add(ticket)

    def carry(*args: Any, **kwargs: Any) -> Any:
        before = _wire.set(wire), _call.set(call)
        try:
            return work(*args, **kwargs)
        finally:
            pending.discard(ticket)
            _wire.reset(before[0])
            _call.reset(before[1])

    return carry


def reported_status(exc: BaseException) -> int | None:
    """The HTTP status that an error of a client reports."""
    response: Any = getattr(exc, "response", None)
    if isinstance(response, dict):  # of botocore
        about = cast("dict[str, Any]", response).get("ResponseMetadata", {})
        return _number(about.get("HTTPStatusCode"))
    for source, name in (
        (response, "status_code"),
        (exc, "http_status"),
        (exc, "status"),
        (exc, "code"),
    ):
        found = _number(getattr(source, name, None))
        if found is not None:
            return found
    return None


def _counts(call: Call) -> bool:
    return (call.is_open or call.is_touched) and not call.is_harmless


def _status_of(result: Any) -> int | None:
    if isinstance(result, tuple):  # of stripe: content, status, headers
        return _number(result[1])  # pyright: ignore
    found = _number(getattr(result, "status_code", None))
    return _number(getattr(result, "status", None)) if found is None else found


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _explained(exc: BaseException) -> Iterator[BaseException]:
    """`exc`, and the errors of the same failure below it."""
    seen: set[int] = set()
    rest: list[object] = [exc]
    while rest:
        it = rest.pop()
        if not isinstance(it, BaseException) or id(it) in seen:
            continue
        seen.add(id(it))
        yield it
        kwargs: Any = getattr(it, "kwargs", None)  # where botocore keeps it
        rest += [it.__cause__, getattr(it, "reason", None), *it.args]
        rest += kwargs.values() if isinstance(kwargs, dict) else ()  # pyright: ignore
        rest += getattr(it, "exceptions", ())


def _is_pair(sock: Any) -> bool:
    """Whether it is one end of a socket pair, by which an event loop wakes itself."""
    try:
        return sock.family.name == "AF_UNIX" and not sock.getpeername()
    except (OSError, AttributeError):
        return False


def _names_unseen_client(function: Callable[..., Any] | None) -> bool:
    inner = None if function is None else inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        return False
    names: dict[str, Any] = getattr(inner, "__globals__", {})
    return any(_package(name, names.get(name)) in UNSEEN_CLIENTS for name in code.co_names)


def _package(name: str, value: Any) -> str:
    if value is None:  # imported inside of the function
        return name
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0]
    module: object = getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""
