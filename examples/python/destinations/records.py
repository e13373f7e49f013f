"""A store of records with versions: a write names the version it was made on, or is turned away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request


class Records(HttpDestination):
    """`GET /records/<id>`, `GET /records/<id>/versions/<n>`, `PUT /records/<id>` with `If-Match`.

    A record begins as version 0 with the value 0.
    """

    name = "records"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._histories: dict[str, list[dict[str, Any]]] = {}

    def apply(self, request: Request) -> Answer:
        parts = request.parts
        if len(parts) < 2 or parts[0] != "records":
            return Answer(404, {"error": "not_found"})
        history = self._histories.setdefault(parts[1], [{"version": 0, "value": 0, "by": ""}])
        if request.method == "PUT":
            return self._write(parts[1], history, request)
        version = int(parts[3]) if len(parts) == 4 else len(history) - 1
        if version >= len(history):
            return Answer(404, {"error": "not_found"})
        return Answer(200, history[version])

    def _write(self, name: str, history: list[dict[str, Any]], request: Request) -> Answer:
        current = history[-1]
        if request.headers.get("if-match") != f'"{current["version"]}"':
            return Answer(412, {"error": "the record has changed", "version": current["version"]})
        wish = request.json()
        record = {"version": len(history), "value": wish["value"], "by": wish.get("by", "")}
        history.append(record)
        self.book.applied("write", record=name, **record)
        return Answer(200, record)
