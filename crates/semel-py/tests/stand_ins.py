"""Servers on this machine that behave, and misbehave, by a script.

`Provider` keeps objects the way a good provider does: one per idempotency key. Each request takes
the next word of its script, and the last word stays:

    ok            creates the object and answers it
    422 …         any status; nothing is created
    ok500 …       creates the object and answers that status
    reset         reads the request, creates nothing, resets the connection
    ok-reset      creates the object, then resets the connection instead of answering
    ok-stall      creates the object, and keeps silent until the test ends
    slam          resets the connection when the first byte of the request is there
    >307 URL      sends the client on; ok>303 URL creates the object first
    last …        any of these, and from then on nobody listens
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

STATUS_BODY = {"error": {"type": "invalid_request_error", "message": "by the script"}}


class Seen:
    """One request as it arrived."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


class Provider:
    """A provider that remembers keys; a context manager, closed with all its connections."""

    def __init__(self, *script: str, error: dict[str, Any] | None = None) -> None:
        self.script = list(script) or ["ok"]
        self.error_body = {"error": error} if error else STATUS_BODY
        self.seen: list[Seen] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.provider = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def keys(self) -> list[str | None]:
        return [seen.key for seen in self.seen]

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def stop_listening(self) -> None:
        """From now on connections are refused; those that are open stay so."""
        self._server.shutdown()
        self._server.socket.close()

    def next_word(self) -> str:
        with self._lock:
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def next_word_is_slam(self) -> bool:
        with self._lock:
            return self.script[0] == "slam"

    def create(self, seen: Seen) -> dict[str, Any]:
        """The object under the request's key; without a key each request makes another one."""
        with self._lock:
            key = seen.key or f"no key, object {len(self.objects) + 1}"
            fresh = {"id": f"obj_{len(self.objects) + 1}", "object": "charge", "path": seen.path}
            return self.objects.setdefault(key, fresh)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def provider(self) -> Provider:
        server: Any = self.server
        return cast(Provider, server.provider)

    def handle_one_request(self) -> None:
        if self.provider.next_word_is_slam():
            self.provider.next_word()
            # Not before: a client that has not sent yet would rightly say so.
            self.connection.recv(1, socket.MSG_PEEK)
            return self._reset()
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def answer_by_script(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body)
        self.provider.seen.append(seen)
        word, _, target = self.provider.next_word().partition(" ")
        if word == "last":
            self.provider.stop_listening()
            word, _, target = target.partition(" ")
            self.close_connection = True
        made: dict[str, Any] = {"id": "read", "object": "charge"}
        if word.startswith("ok") and self.command not in ("GET", "HEAD"):
            made = self.provider.create(seen)
        self._answer(word.removeprefix("ok"), made, target)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer_by_script

    def _answer(self, word: str, made: dict[str, Any], target: str) -> None:
        if word == "":
            self._reply(200, made)
        elif word in ("reset", "-reset"):
            self._reset()
        elif word == "-stall":
            self.provider.closing.wait()
            self._reset()
        elif word.startswith(">"):
            self._reply(int(word[1:]), {}, {"Location": target})
        else:
            self._reply(int(word), self.provider.error_body)

    def _reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _reset(self) -> None:
        # No lingering: close() then sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the tests' output to the tests."""


def refusing_url() -> str:
    """A URL at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


class FullBacklog:
    """A listener that accepts nobody and whose queue is full: connecting to it stalls."""

    def __enter__(self) -> str:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        address = self._listener.getsockname()
        self._waiting: list[socket.socket] = []
        for _ in range(4):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(address)
            self._waiting.append(waiting)
        return f"http://127.0.0.1:{address[1]}"

    def __exit__(self, *_: object) -> None:
        for waiting in self._waiting:
            waiting.close()
        self._listener.close()
