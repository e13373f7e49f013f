"""Counters for `semel check`: `--counter check_destinations.py:smtp`, or `:vendors_cms`.

The name says which destinations are started; their addresses go into the environment. Each forgets
everything before the next case."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from destinations import ALL
from destinations.http import HttpDestination
from destinations.smtp import Smtp

Destination = HttpDestination | Smtp


class Counted:
    """Some destinations, and how many objects they have by now."""

    def __init__(self, names: list[str]) -> None:
        self._books = tempfile.TemporaryDirectory(prefix="check-destinations-")
        # Where an example keeps documents, unless somebody says otherwise.
        os.environ.setdefault("ARTEFACTS", self._books.name)
        kinds = {kind.name: kind for kind in ALL}
        self._kinds = [kinds[name] for name in names]
        self._ports = [0] * len(names)
        self._running: list[Destination] = []
        self.reset()
        for name, one in zip(names, self._running, strict=True):
            variable = "SMTP_ADDRESS" if name == "smtp" else f"{name.upper()}_URL"
            os.environ[variable] = one.address

    def __call__(self) -> dict[str, int]:
        lines = [line for one in self._running for line in one.book.lines("applied")]
        return dict(Counter(str(line["what"]) for line in lines))

    def reset(self) -> None:
        """Starts all of them anew, at the same addresses."""
        for one in self._running:
            one.stop()
            one.book.path.unlink()
        self._running = []
        for place, kind in enumerate(self._kinds):
            one = kind(Path(self._books.name), None, self._ports[place])
            one.start()
            self._ports[place] = int(one.address.rpartition(":")[2])
            self._running.append(one)


def __getattr__(name: str) -> Callable[[], dict[str, int]]:
    known = {kind.name for kind in ALL}
    names = name.split("_")
    if not known.issuperset(names):
        raise AttributeError(name)
    return Counted(names)
