"""What the tests share: stores, an opened Semel, and an outside world to have effects on."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from postgres_server import postgres_server
from semel import Semel
from server_kit import serving
from webhook_kit import Server

# The destinations of the examples.
sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "python"))

PATIENCE_S = 180
"""A test that is silent for so long hangs: everybody's traces are printed and the run ends."""


SEVERAL_NAMESPACES = "whoever asks a server is in one namespace; that has tests in test_remote.py"
NOT_OVER_HTTP = {
    "test_async.py::test_two_async_semels_in_one_event_loop_keep_their_runs_apart": (
        SEVERAL_NAMESPACES
    ),
    "test_command_line.py": "it asks no store",
    "test_dev.py": "`semel dev` serves the store itself",
    "test_effects.py::test_namespaces_do_not_meet": SEVERAL_NAMESPACES,
    "test_effects.py::test_threads_choose_each_for_itself": SEVERAL_NAMESPACES,
    "test_effects.py::test_with_several_semels_one_must_be_chosen": SEVERAL_NAMESPACES,
    "test_fork_locks.py": "its processes share the store's file",
    "test_transaction.py": "rows of the program's own lie in the store's file",
    "test_webhooks.py": "it serves the store itself",
    "test_webhooks_kill.py": "it serves the store itself",
}
"""Files, and tests of files, that are not played over `http://…`, and why."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Plays everything that has a store on each kind of it, and by a server that has the store."""
    file = metafunc.definition.path.name
    is_served = not {file, f"{file}::{metafunc.definition.originalname}"} & NOT_OVER_HTTP.keys()
    for fixture, kinds in {"store_url": ["sqlite", "postgres"], "sqlite_url": ["sqlite"]}.items():
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, [*kinds, *["http"] * is_served], indirect=True)


@contextmanager
def opened(url: str) -> Iterator[Semel]:
    """A Semel that is chosen in the block, and closed at its end."""
    app = Semel(url)
    try:
        with app.as_current():
            yield app
    finally:
        app.close()


@pytest.fixture(autouse=True)
def no_hanging(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ends a test that hangs: the point of many tests here is that nothing does."""
    is_long = "kill" in request.path.parts or request.path.stem == "test_schemathesis"
    is_campaign = is_long or os.environ.get("SEMEL_CHECK_ALL") == "1"
    patience = PATIENCE_S * (7 if is_campaign else 1)
    faulthandler.dump_traceback_later(patience, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def _postgres_url() -> Iterator[str]:
    import psycopg

    server = postgres_server()
    schema = f"py_{os.getpid()}_{uuid.uuid4().hex[:12]}"
    sign = "&" if "?" in server else "?"
    yield f"{server}{sign}schema={schema}&migrate=true"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def _store_url(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:{folder}/semel.db"
    elif kind == "postgres":
        yield from _postgres_url()
    else:
        # Apart from what the test writes: no command of its own finds the store or the settings.
        folder = folder / "server"
        folder.mkdir()
        with serving(folder, f"sqlite:{folder}/semel.db") as server:
            yield server.url


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of the test's own: SQLite, Postgres, or behind a server."""
    yield from _store_url(request.param, tmp_path)


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same for tests to which Postgres makes no difference: SQLite, or behind a server."""
    yield from _store_url(request.param, tmp_path)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A running `semel serve` on a store of each kind. Each test takes a namespace of its own."""
    folder = tmp_path_factory.mktemp(f"server-{request.param}")
    if request.param == "sqlite":
        with serving(folder, f"sqlite:{folder}/semel.db") as running:
            yield running
    else:
        for store in _postgres_url():
            with serving(folder, store) as running:
                yield running


@pytest.fixture
def any_app(store_url: str) -> Iterator[Semel]:
    """An opened Semel, on a store of each kind."""
    app = Semel(store_url)
    yield app
    app.close()


@pytest.fixture
def app(sqlite_url: str) -> Iterator[Semel]:
    """An opened Semel."""
    app = Semel(sqlite_url)
    yield app
    app.close()


class World:
    """The outside world: it remembers everything that was done to it, and answers as it is told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: list[Any] = []
        self.answers: list[Any] = []
        """What the next calls come to; exceptions are raised. Then each gets its number."""

    def do(self, what: Any = None) -> Any:
        """Something happens outside, for good."""
        with self._lock:
            self.calls.append(what)
            number = len(self.calls)
            answer = self.answers.pop(0) if self.answers else {"number": number}
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __len__(self) -> int:
        return len(self.calls)


@pytest.fixture
def world() -> World:
    """The outside world."""
    return World()


def until(is_so: Callable[[], Any], timeout: float = 20) -> Any:
    """Waits until something is so, and returns it."""
    end = time.monotonic() + timeout
    while not (found := is_so()):
        assert time.monotonic() < end, "it did not come to be so in time"
        time.sleep(0.02)
    return found


class Script:
    """A program in a process of its own."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "STORE": store, "FOLDER": str(folder)}
        self.environment.pop("SEMEL_STORE", None)

    def write(self, name: str, source: str) -> Path:
        """Writes a program."""
        path = self.folder / name
        path.write_text(source)
        return path

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Starts Python with these words."""
        line = [sys.executable, *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            line, env=self.environment, cwd=self.folder, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *words: str | Path, timeout: float = 40) -> subprocess.CompletedProcess[str]:
        """Runs Python with these words to its end."""
        line = [sys.executable, *map(str, words)]
        return subprocess.run(
            line,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def said(self, source: str) -> Any:
        """Runs a program that must end well, and returns the JSON that it printed last."""
        done = self.run(self.write(f"said_{uuid.uuid4().hex[:8]}.py", source))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def script(tmp_path: Path, sqlite_url: str) -> Script:
    """Programs in processes of their own, which find the store in `STORE`."""
    return Script(tmp_path, sqlite_url)


@pytest.fixture
def any_script(tmp_path: Path, store_url: str) -> Script:
    """The same, on a store of each kind."""
    return Script(tmp_path, store_url)


class Site:
    """A loopback HTTP server: it keeps one object for each idempotency key it sees."""

    def __init__(self) -> None:
        site = self
        self.requests: list[tuple[str, str | None, Any]] = []
        self.objects: dict[str, Any] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
                key = self.headers.get("Idempotency-Key")
                site.requests.append((self.path, key, body))
                made = {"id": f"object-{len(site.objects) + 1}", **(body or {})}
                answer = json.dumps(site.objects.setdefault(key or str(uuid.uuid4()), made))
                self.send_response(201)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    """A loopback HTTP server."""
    site = Site()
    yield site
    site.close()
