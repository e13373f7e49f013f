"""Processes of an example: started as a user would, or forked from one that has imported all.

A campaign kills hundreds of them, and most of a young Python's time is imports. A forked one is a
process like any other, only that it begins behind them; the ledger is opened after the fork.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

# Longer than any healthy run takes here, so that only what hangs meets it.
PATIENCE_SECONDS = 90
LOOK_SECONDS = 0.005

_forked = multiprocessing.get_context("forkserver")
_forked.set_forkserver_preload(
    [
        "pydantic",
        "httpx",
        "smtplib",
        "email.message",
        "stripe",
        "fastapi.testclient",
        "langgraph.graph",
        "langgraph.checkpoint.memory",
        "semel.httpx",
        "semel.stripe",
        "example_worker",
    ]
)


class Process(Protocol):
    """What both kinds of processes can do."""

    @property
    def pid(self) -> int | None:
        """Its id."""

    def poll(self) -> int | None:
        """Its exit code, or nothing while it lives."""

    def wait(self) -> int | None:
        """Waits for its exit code, but not for ever."""

    def kill(self) -> None:
        """SIGKILL."""


class Started:
    """`python app.py`."""

    def __init__(self, program: list[str], env: dict[str, str], out: Path, err: Path) -> None:
        command = [sys.executable, *program]
        with out.open("w") as stdout, err.open("w") as stderr:
            self._process = subprocess.Popen(
                command, env=env, cwd=out.parent, stdout=stdout, stderr=stderr
            )

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(PATIENCE_SECONDS)
        return None

    def kill(self) -> None:
        self._process.kill()


# Starting a process also asks after all others, and two threads that ask at once take each other's
# answer.
_one_asks = threading.Lock()


class Forked:
    """The same program, forked from a process that has imported what it needs."""

    def __init__(self, program: list[str], env: dict[str, str], out: Path, err: Path) -> None:
        self._process = _forked.Process(target=_run, args=(program, env, str(out), str(err)))
        with _one_asks:
            self._process.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def poll(self) -> int | None:
        with _one_asks:
            return self._process.exitcode

    def wait(self) -> int | None:
        end = time.monotonic() + PATIENCE_SECONDS
        while (code := self.poll()) is None and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return code

    def kill(self) -> None:
        with _one_asks:
            self._process.kill()


def _run(program: list[str], env: dict[str, str], out: str, err: str) -> None:
    """In the forked process: becomes the program."""
    for path, descriptor in ((out, 1), (err, 2)):
        file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(Path(out).parent)
    os.environ.clear()
    os.environ.update(env)
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")


class Worker:
    """A process of an example. It writes to files, so that also a killed one is heard."""

    def __init__(
        self,
        kind: type[Started] | type[Forked],
        program: list[str],
        env: dict[str, str],
        folder: Path,
        number: int,
    ) -> None:
        self._out = folder / f"worker-{number}.out"
        self._err = folder / f"worker-{number}.err"
        self.process: Process = kind(program, env, self._out, self._err)

    @property
    def pid(self) -> int | None:
        """Its id."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL; a process that has ended meanwhile is left alone."""
        self.process.kill()

    def end(self) -> int:
        """Waits for its end: 0, or -9 when it was killed. Anything else is told with its words."""
        code = self.code()
        assert code in (0, -signal.SIGKILL), f"exit {code}: {self.words()}"
        return code

    def code(self) -> int:
        """Waits for its exit code."""
        code = self.process.wait()
        if code is None:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"a worker hangs: {self.words()}")
        return code

    def words(self) -> str:
        """What it said beside its outcome."""
        return self._err.read_text() if self._err.exists() else ""

    def printed(self) -> str:
        """What it printed."""
        return self._out.read_text()

    def outcome(self) -> dict[str, list[Any]]:
        """What it printed: for each item, what each of its deliveries came to."""
        said: dict[str, list[Any]] = json.loads(self.printed())
        return said
