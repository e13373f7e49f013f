"""A stage for one example: its destinations, a store of its own, and worker processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from destinations.http import HttpDestination
from destinations.smtp import Smtp
from example_worker import Forked, Started, Worker
from postgres_server import postgres_server

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"
Destination = HttpDestination | Smtp

# A killed process is missed after its lease (on Postgres nothing else proves it dead), and its last
# request may land until deadline and settle window are over.
SHORT_TIMES = {
    "LEASE": "1s",
    "DEADLINE": "2s",
    "SETTLE_WINDOW": "1500ms",
    "NURTURE_PAUSE": "50ms",
    "VENDOR_PATIENCE": "50ms",
}

# What each kind of destination is called in the environment of an example.
VARIABLES = {
    "agent": "AGENT_URL",
    "cms": "CMS_URL",
    "crm": "CRM_URL",
    "hubspot": "HUBSPOT_URL",
    "model": "MODEL_URL",
    "queue": "QUEUE_URL",
    "records": "RECORDS_URL",
    "shop": "SHOP_URL",
    "slack": "SLACK_URL",
    "smtp": "SMTP_ADDRESS",
    "stripe": "STRIPE_URL",
    "vendors": "VENDORS_URL",
}


class Stage:
    """Everything one story of one example needs, and nothing that another one sees."""

    def __init__(
        self,
        name: str,
        destinations: tuple[type[Destination], ...],
        store: str,
        folder: Path,
        kind: type[Started] | type[Forked],
    ) -> None:
        self.name = name
        self._kind = kind
        self.store = store
        self.folder = folder
        self.destinations = {kind.name: kind(folder) for kind in destinations}
        self._workers: list[Worker] = []

    def __getitem__(self, name: str) -> Destination:
        return self.destinations[name]

    def start(
        self,
        *arguments: str,
        program: list[str] | None = None,
        env: dict[str, str] | None = None,
    ) -> Worker:
        """Starts the example's `app.py`, or another program in its place."""
        program = [*(program or [str(EXAMPLES / self.name / "app.py")]), *arguments]
        addresses = {VARIABLES[name]: one.address for name, one in self.destinations.items()}
        inherited = {name: value for name, value in os.environ.items() if "SEMEL" not in name}
        whole = {**inherited, **SHORT_TIMES, **addresses, "SEMEL_STORE": self.store}
        whole.update(env or {})
        worker = Worker(self._kind, program, whole, self.folder, len(self._workers))
        self._workers.append(worker)
        return worker

    def finish(self, *arguments: str) -> dict[str, list[Any]]:
        """Starts it, lets it finish, and returns its outcome."""
        worker = self.start(*arguments)
        assert worker.end() == 0, worker.words()
        return worker.outcome()

    def refusal_of(self, *arguments: str) -> str:
        """Runs a command of the example. Returns what it was refused with, or nothing."""
        worker = self.start(*arguments)
        return "" if worker.code() == 0 else worker.words()

    def verify(self) -> None:
        """Lets the command check every invariant of the store."""
        worker = self.start("verify", "--json", program=["-m", "semel"])
        assert worker.end() == 0, worker.words()
        assert json.loads(worker.printed())["violations"] == []

    def script(self, code: str) -> str:
        """Runs a few lines beside the example's `app.py`, and returns what they print."""
        folder = EXAMPLES / self.name
        worker = self.start(
            program=["-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
        )
        assert worker.end() == 0, worker.words()
        return worker.printed()

    def arrivals(self) -> int:
        """How many requests have reached any destination."""
        return sum(one.book.arrival_count for one in self.destinations.values())

    def count(self, destination: str, what: str, fact: str) -> Counter[Any]:
        """How many effects of a kind there are, by one of their facts."""
        lines = self[destination].book.lines("applied", what=what)
        return Counter(line[fact] for line in lines)

    def open(self) -> None:
        for one in self.destinations.values():
            one.start()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.process.wait()
        for one in self.destinations.values():
            one.stop()


@contextlib.contextmanager
def on_stage(
    name: str,
    destinations: tuple[type[Destination], ...],
    store: str,
    worker: type[Started] | type[Forked] = Started,
) -> Iterator[Stage]:
    """A stage that is gone afterwards, with its processes, its store and its files."""
    with tempfile.TemporaryDirectory() as folder, new_store(store, Path(folder)) as url:
        stage = Stage(name, destinations, url, Path(folder), worker)
        stage.open()
        try:
            yield stage
        finally:
            stage.close()


@contextlib.contextmanager
def new_store(kind: str, folder: Path) -> Iterator[str]:
    """The address of an empty store: a file, or a database of its own."""
    if kind == "sqlite":
        yield f"sqlite:{folder / 'semel.db'}"
        return
    server, name = postgres_server(), f"example_{uuid.uuid4().hex}"
    administer(server, f"create database {name} template {template(server)}")
    try:
        yield database(server, name)
    finally:
        administer(server, f"drop database {name} with (force)")


_template_lock = threading.Lock()
_templates: dict[str, str] = {}


def template(server: str) -> str:
    """The name of a database with an empty store in it, made once: a copy of it costs less."""
    with _template_lock:
        if server not in _templates:
            name = f"template_{uuid.uuid4().hex}"
            administer(server, f"create database {name}")
            command = [sys.executable, "-m", "semel", "--store", database(server, name), "migrate"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            _templates[server] = name
        return _templates[server]


def database(server: str, name: str) -> str:
    """The address of a database."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def administer(server: str, command: str) -> None:
    """Creates and drops databases."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(command.encode())
