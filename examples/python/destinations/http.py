"""What all HTTP destinations share: reading, writing down, failing, answering."""

from __future__ import annotations

import json
import socket
import struct
import threading
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from destinations.book import Book
from destinations.faults import AnswerWith, Cut, FaultPlan, LandLate


@dataclass(frozen=True)
class Request:
    """A request, as it was read."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def line(self) -> str:
        """`METHOD /path`, which faults are matched with."""
        return f"{self.method} {self.path}"

    @property
    def parts(self) -> list[str]:
        """The path's parts."""
        return [part for part in self.path.split("/") if part]

    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found

    def form(self) -> dict[str, str]:
        """The body as a form."""
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True)
class Answer:
    """An answer: a status and JSON."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict[str, str])


class HttpDestination:
    """A server on a port of its own. A subclass says what a request does."""

    name: ClassVar[str]

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        self.book = Book(folder / f"{self.name}.jsonl")
        self.faults = faults or FaultPlan()
        self.lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def apply(self, request: Request) -> Answer:
        """Does what is asked. Called under `lock`."""
        raise NotImplementedError

    def admit(self, request: Request) -> Answer | None:
        """Answers at once, before anything can go wrong, or lets the request in."""
        return None

    def leave(self, request: Request, answer: Answer | None) -> None:
        """A request that was let in is over, with an answer or without."""

    def serve(self, request: Request) -> Answer:
        """The whole way of one request."""
        self.book.arrived(request.line, key=request.headers.get("idempotency-key"))
        at_once = self.admit(request)
        if at_once is not None:
            return at_once
        try:
            self.faults.meet(request.line, "before")
            answer = self._apply(request)
        except LandLate as late:
            # Still being worked on: a repeat under its key is told so.
            self._apply_later(request, late.seconds)
            raise Cut from late
        except BaseException:
            self.leave(request, None)
            raise
        self.leave(request, answer)
        self.faults.meet(request.line, "after")
        return answer

    def start(self) -> str:
        """Begins to listen, and returns the address."""
        self._thread.start()
        return self.address

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Ends it, and waits for whatever is still to land."""
        self.faults.end_stalls()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.book.close()

    def _apply(self, request: Request) -> Answer:
        with self.lock:
            return self.apply(request)

    def _apply_later(self, request: Request, seconds: float) -> None:
        def land() -> None:
            self.faults.wait(seconds)
            self.leave(request, self._apply(request))

        threading.Thread(target=land, daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, destination: HttpDestination, port: int) -> None:
        super().__init__(("127.0.0.1", port), partial(_Handler, destination))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients die in the middle here; that is what it is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; without this the second waits for the client's word.
    disable_nagle_algorithm = True

    def __init__(self, destination: HttpDestination, *args: Any) -> None:
        self._destination = destination
        super().__init__(*args)

    def _serve(self) -> None:
        try:
            answer = self._destination.serve(self._read())
        except AnswerWith as fault:
            answer = Answer(fault.status, {"error": {"message": "as planned"}})
        except Cut:
            self.close_connection = True
            reset(self.connection)
            return
        self._write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _read(self) -> Request:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            raise Cut  # the sender died in the middle of it: that is no request
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, urlsplit(self.path).path, headers, body)

    def _write(self, answer: Answer) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The book is the log."""


def reset(connection: socket.socket) -> None:
    """Closes with a reset instead of a farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
