"""Watches what the code of an effect does on the network, and tells the attempt's `Wire`.

Everything here is installed at the first attempt of the process, and does nothing where no attempt
runs. A client that is imported later is watched from the next attempt on; until then its sockets
are, which says less: then more errors are unknown.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._wire import (
    Apart,
    Call,
    Calling,
    Wire,
    carried,
    current,
    note_connected,
    note_elsewhere,
    note_loop,
    note_sent,
    note_written,
)

# Where a call of a client starts and ends: module, class, method.
_CALLS = [
    ("botocore.httpsession", "URLLib3Session", "send"),
    ("httpx", "Client", "send"),
    ("httpx2", "Client", "send"),
    ("psycopg", "Connection", "wait"),
    ("requests.sessions", "Session", "request"),
    ("requests.sessions", "Session", "send"),
    ("urllib.request", "OpenerDirector", "open"),
    ("urllib3.connectionpool", "HTTPConnectionPool", "urlopen"),
    ("urllib3.poolmanager", "PoolManager", "urlopen"),
]
_MAIL_COMMANDS = [
    ("smtplib", "SMTP", command)
    for command in (
        *("__init__", "connect", "data", "docmd", "ehlo", "helo", "login", "mail", "noop"),
        *("quit", "rcpt", "rset", "sendmail"),
    )
]
_ASYNC_CALLS = [
    ("aiohttp.client", "ClientSession", "_request"),
    ("asyncio.base_events", "BaseEventLoop", "create_connection"),
    ("httpx", "AsyncClient", "send"),
    ("httpx2", "AsyncClient", "send"),
    ("psycopg", "AsyncConnection", "wait"),
]
# Event loops whose sockets are not Python's, and where they make a connection.
_UNSEEN_LOOPS = [
    ("uvloop", "Loop", "run_forever"),
    ("uvloop", "Loop", "run_until_complete"),
]
_UNSEEN_CONNECTIONS = [("uvloop", "Loop", "create_connection")]
# By these, work goes to a process that may have been there before.
_ELSEWHERE = [
    ("concurrent.futures.process", "ProcessPoolExecutor", "submit"),
    ("multiprocessing.pool", "Pool", "_check_running"),
    ("multiprocessing.process", "BaseProcess", "start"),
]
# These events come before a process is started. `platform` and `distro` ask such processes.
_STARTS_PROCESS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "subprocess.Popen",
}
_WRITES = os.O_WRONLY | os.O_RDWR
_ASKS_SYSTEM = ("uname", "lsb_release", "sw_vers", "ldconfig")

_lock = threading.Lock()
_installed: set[tuple[str, str, str]] = set()
_is_hooked = False


def install() -> None:
    """Watches what is imported by now."""
    global _is_hooked
    if not _is_hooked:
        with _lock:
            if not _is_hooked:
                _install_once()
                _is_hooked = True
    for table, watched in _TABLES:
        for place in table:
            if place[0] in sys.modules and place not in _installed:
                _watch(place, watched)


def _watch(place: tuple[str, str, str], watched: Callable[[Any], Any]) -> None:
    module, owner, method = place
    with _lock:
        found: Any = getattr(sys.modules[module], owner, None)
        if place in _installed or not hasattr(found, method):
            return  # not yet: its module is still being imported
        setattr(found, method, watched(getattr(found, method)))
        _installed.add(place)


def _install_once() -> None:
    sys.addaudithook(_on_event)
    for method in ("connect", "connect_ex"):
        _replace(socket.socket, method, _connecting)
    for method in ("send", "sendall", "sendto", "sendmsg", "sendfile"):
        _replace(socket.socket, method, _sending)
    for method in ("send", "write"):
        _replace(ssl.SSLSocket, method, _sending)
    _replace(threading.Thread, "start", _starting)
    _replace(ThreadPoolExecutor, "submit", _submitting)
    _replace(logging.Handler, "handle", _apart)


def _replace(owner: Any, method: str, watched: Callable[[Any], Any]) -> None:
    if hasattr(owner, method):
        setattr(owner, method, watched(getattr(owner, method)))


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event in _STARTS_PROCESS and current() is not None and not _asks_system(event, args):
        note_elsewhere()
    elif event == "open" and current() is not None and _is_write(args):
        note_written()


def _is_write(args: tuple[Any, ...]) -> bool:
    path, mode, flags = args
    is_write = flags & _WRITES if isinstance(flags, int) else set(str(mode)) & set("wax+")
    # An import keeps what it compiled.
    return bool(is_write) and ".pyc" not in str(path) and path != os.devnull


def _asks_system(event: str, args: tuple[Any, ...]) -> bool:
    return event == "subprocess.Popen" and str(args[0]).rpartition("/")[2] in _ASKS_SYSTEM


def _awaiting(method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return await method(self, *args, **kwargs)
        with Calling() as calling:
            result = await method(self, *args, **kwargs)
            calling.answered(result)
            return result

    return call


def _calling(method: Any) -> Any:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return method(self, *args, **kwargs)
        with Calling() as calling:
            result = method(self, *args, **kwargs)
            calling.answered(result)
            return result

    return call


class _Mailing(Calling):
    """Around one command of a mail session. A session is one call until a mail is accepted."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self._session = session

    def _begun(self, wire: Wire) -> Call:
        known: tuple[Wire, Call] | None = getattr(self._session, _SESSION, None)
        if known is None or known[0] is not wire:
            known = wire, super()._begun(wire)
            setattr(self._session, _SESSION, known)
        return known[1]


_SESSION = "_semel_call"


def _mailing(method: Any) -> Any:
    @functools.wraps(method)
    def command(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return method(self, *args, **kwargs)
        with _Mailing(self):
            answer = method(self, *args, **kwargs)
        if method.__name__ == "data" and answer[0] == 250:
            setattr(self, _SESSION, None)  # what follows is another mail
        return answer

    return command


def _looping(method: Any) -> Any:
    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        wire = current()
        if wire is not None:
            note_loop(wire, self)
        return method(self, *args, **kwargs)

    return run


def _linking(method: Any) -> Any:
    @functools.wraps(method)
    async def connect(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await method(self, *args, **kwargs)
        note_connected()
        return result

    return connect


def _leaving(method: Any) -> Any:
    @functools.wraps(method)
    def leave(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_elsewhere()
        return method(self, *args, **kwargs)

    return leave


def _connecting(method: Any) -> Any:
    @functools.wraps(method)
    def connect(self: Any, address: Any) -> Any:
        # Raises, or returns a number, where the connection is not made yet.
        result = method(self, address)
        if not result and self.type != socket.SOCK_DGRAM:
            note_connected()
        return result

    return connect


def _sending(method: Any) -> Any:
    @functools.wraps(method)
    def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_sent(self)
        return method(self, *args, **kwargs)

    return send


def _starting(method: Any) -> Any:
    @functools.wraps(method)
    def start(self: Any) -> Any:
        # The workers of anyio bring the context of each piece of work themselves.
        if current() is not None and not type(self).__module__.startswith("anyio."):
            self.run = carried(self.run)
        return method(self)

    return start


def _submitting(method: Any) -> Any:
    @functools.wraps(method)
    def submit(self: Any, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return method(self, work, *args, **kwargs)
        work = carried(work)
        with Apart():  # a worker that is started for it outlives the attempt
            return method(self, work, *args, **kwargs)

    return submit


def _apart(method: Any) -> Any:
    @functools.wraps(method)
    def handle(self: Any, record: Any) -> Any:
        if current() is None:
            return method(self, record)
        with Apart():
            return method(self, record)

    return handle


_TABLES: list[tuple[list[tuple[str, str, str]], Callable[[Any], Any]]] = [
    (_CALLS, _calling),
    (_MAIL_COMMANDS, _mailing),
    (_ASYNC_CALLS, _awaiting),
    (_UNSEEN_LOOPS, _looping),
    (_UNSEEN_CONNECTIONS, _linking),
    (_ELSEWHERE, _leaving),
]
