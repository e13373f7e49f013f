"""The book of a destination: one JSON line for each arrival and each applied effect."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


class Book:
    """Appends to a file, so that what happened can be counted whoever was killed meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrival_count = 0
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def arrived(self, what: str, **facts: Any) -> None:
        """A request is here; nothing has been done about it."""
        self.arrival_count += 1
        self._add({"event": "arrived", "what": what, **facts})

    def applied(self, what: str, **facts: Any) -> None:
        """The world has changed."""
        self._add({"event": "applied", "what": what, **facts})

    def lines(self, event: str, **facts: Any) -> list[dict[str, Any]]:
        """Every line of this event that has all these facts, oldest first."""
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        wanted = {"event": event, **facts}
        return [line for line in lines if all(line.get(k) == v for k, v in wanted.items())]

    def close(self) -> None:
        """Nothing more will be written."""
        os.close(self._file)

    def _add(self, line: dict[str, Any]) -> None:
        # One write for a whole line: readers never see half of one.
        with self._lock:
            os.write(self._file, (json.dumps(line) + "\n").encode())
