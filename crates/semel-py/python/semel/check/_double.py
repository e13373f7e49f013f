"""A stand-in for a destination: `semel double` as a process of its own, steered over HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from ._lives import Unready, Wrong
from ._target import Missing

CONTROL = "/__double__"
USAGE = 2
# A double is on this machine: no proxy of the environment knows it.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Wanted(NamedTuple):
    """A double: the variable that its address goes into, and what it poses as."""

    variable: str
    mode: str
    """A mode such as `keys`, or the file of a script."""

    @staticmethod
    def parse(text: str) -> Wanted:
        """Reads `CRM_URL=keys` or `CRM_URL=crm.json`; without a mode it is `keys`."""
        variable, _, mode = text.partition("=")
        return Wanted(variable, mode or "keys")


class Request(NamedTuple):
    """A request that came, in the order of all doubles of a stage."""

    at: str
    double: str
    number: int
    route: str
    key: str | None
    fault: str | None


class Double:
    """One running double."""

    def __init__(self, wanted: Wanted, scratch: Path) -> None:
        self.variable = wanted.variable
        program = [sys.executable, "-m", "semel", "--json", "double"]
        is_script = wanted.mode.endswith(".json")
        if is_script and not Path(wanted.mode).is_file():
            raise Missing(f"there is no file {wanted.mode}")
        program += ["--script", wanted.mode] if is_script else [wanted.mode]
        words = scratch / f"{wanted.variable}.err"
        with words.open("wb") as stderr:
            self._process = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self.close()
            # The command knows its modes and scripts, and says so by how it ends.
            kind = Wrong if code == USAGE else Unready
            said = _message(words.read_text())
            raise kind(f"no double {wanted.variable}: {said}", code="input_invalid")
        self.address = str(json.loads(line)["url"])

    def reset(self) -> None:
        """Forgets everything."""
        self._ask("POST", "reset")

    def arm(self, fault: dict[str, Any]) -> None:
        """Lets something go wrong."""
        self._ask("POST", "faults", [fault])

    def release(self) -> None:
        """Lets go of whoever hangs."""
        self._ask("POST", "release")

    def requests(self) -> list[Request]:
        """All requests since the last reset, in order."""
        book = self._ask("GET", "book")
        return [
            Request(
                _sortable(one["at"]),
                self.variable,
                number,
                one["route"],
                one.get("key"),
                one.get("fault"),
            )
            for number, one in enumerate(book["entries"], start=1)
        ]

    def counts(self) -> dict[str, dict[str, int]]:
        """Of each route: how many writes took effect (`applied`), and its `model_calls`."""
        routes: dict[str, dict[str, int]] = self._ask("GET", "counts")["routes"]
        return routes

    def _ask(self, method: str, what: str, body: Any = None) -> dict[str, Any]:
        data = None if method == "GET" else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}{CONTROL}/{what}",
            data=data,
            method=method,
            headers={"content-type": "application/json"},
        )
        with _DIRECT.open(request, timeout=10) as answer:
            text = answer.read()
        return dict(json.loads(text)) if text.strip().startswith(b"{") else {}

    def close(self) -> None:
        """Ends it."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _message(words: str) -> str:
    """What a command says that was told to say it as JSON, and does not always."""
    try:
        return str(json.loads(words)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return words.strip().removeprefix("error: ")


def _sortable(at: str) -> str:
    """A time in UTC whose fraction always has nine digits."""
    seconds, _, fraction = at.rstrip("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"
