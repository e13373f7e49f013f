"""Lives, seen from whoever has them borne."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .._errors import SemelError
from ._life import Life
from ._target import Missing, Target

Mode = Literal["fast", "process"]

PATIENCE_SECONDS = 60.0
"""A life gives up by itself long before."""


class Unready(SemelError):
    """The file cannot be imported, or a life could not be lived."""


class Wrong(Unready):
    """The line says what cannot be meant."""


class Hangs(Unready):
    """A life went on for ever."""


class End(NamedTuple):
    """How a life ended."""

    code: int | None
    """Nothing: it stands still."""
    said: dict[str, Any] | None
    """What it saw, if it lived to tell."""
    points: list[list[str]]
    """The points it passed; each may have several names."""
    words: str

    @property
    def was_killed(self) -> bool:
        """Whether it died by SIGKILL."""
        return self.code == -signal.SIGKILL


class Lives:
    """A nursery, and whoever it has borne."""

    def __init__(
        self, target: Target, mode: Mode, environment: dict[str, str], scratch: Path
    ) -> None:
        ours, theirs = socket.socketpair()
        self._wire = ours
        program = [sys.executable, "-m", "semel.check.nursery", str(theirs.fileno())]
        program += [mode, f"{target.file}:{target.name}", str(scratch)]
        self._words = scratch / "nursery.err"
        with self._words.open("wb") as words:
            self._process = subprocess.Popen(
                program,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            )
        theirs.close()
        self._lines = ours.makefile("r")
        try:
            told = self._hear()
            if "error" in told:
                self._refuse(told["error"])
        except BaseException:
            self.close()
            raise
        self.mode: str = told["mode"]
        self.reason: str | None = told.get("reason")
        """Why it is another mode than the one that was asked for."""

    def _refuse(self, error: str) -> None:
        kind, _, words = error.partition(": ")
        if kind == "Missing":
            raise Missing(words)
        words = f"the file cannot be imported: {error}\n{self._words.read_text()}"
        raise Unready(words, code="input_invalid")

    def bear(self, life: Life) -> int:
        """Begins a life. Returns the id of its process."""
        return int(self._ask({"bear": asdict(life)})["pid"])

    def wait(self, pid: int, life: Life, seconds: float = PATIENCE_SECONDS) -> End:
        """Waits until it is over, or stands still. One that hangs is killed."""
        told = self._ask({"wait": pid, "seconds": seconds})
        if "late" in told:
            os.kill(pid, signal.SIGKILL)
            self._ask({"wait": pid, "seconds": PATIENCE_SECONDS})
            raise Hangs(f"a process hangs: {_words_of(life)[-2000:]}", code="internal")
        return read_end(life, None if told.get("stopped") else int(told["code"]))

    def live(self, life: Life) -> End:
        """A whole life."""
        return self.wait(self.bear(life), life)

    def _ask(self, ask: dict[str, Any]) -> dict[str, Any]:
        self._wire.sendall((json.dumps(ask) + "\n").encode())
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            words = self._words.read_text()[-2000:]
            raise Unready(f"the process that bears lives is gone\n{words}", code="internal")
        return dict(json.loads(line))

    def close(self) -> None:
        """Ends everything."""
        with contextlib.suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)
        self._wire.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def read_end(life: Life, code: int | None) -> End:
    """What a life left behind."""
    words = _words_of(life)
    said = json.loads(life.said.read_text()) if code == 0 and life.said.exists() else None
    lines = [line for line in words.splitlines() if line.startswith("point: ")]
    points = [line.removeprefix("point: ").split(" | ") for line in lines]
    return End(code, said, [names for names in points if names != [""]], words)


def _words_of(life: Life) -> str:
    return life.words.read_text(errors="replace") if life.words.exists() else ""
