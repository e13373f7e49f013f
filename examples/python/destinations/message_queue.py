"""A queue over HTTP that delivers a message again and again until it is acknowledged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request

VISIBILITY_SECONDS = 0.5


class MessageQueue(HttpDestination):
    """`POST /messages`, `POST /receive`, `POST /ack`. Whoever dies before the ack loses nothing."""

    name = "queue"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._count = 0
        self._messages: dict[str, dict[str, Any]] = {}
        self._hidden_until: dict[str, float] = {}

    def apply(self, request: Request) -> Answer:
        acts = {"/messages": self._send, "/receive": self._receive, "/ack": self._ack}
        act = acts.get(request.path)
        return act(request.json()) if act else Answer(404, {"error": "not_found"})

    def _send(self, body: dict[str, Any]) -> Answer:
        self._count += 1
        name = f"message-{self._count}"
        self._messages[name] = {"id": name, "deliveries": 0, "body": body}
        return Answer(201, {"id": name})

    def _receive(self, _: dict[str, Any]) -> Answer:
        now = time.monotonic()
        for name, message in self._messages.items():
            if self._hidden_until.get(name, 0.0) <= now:
                self._hidden_until[name] = now + VISIBILITY_SECONDS
                message["deliveries"] += 1
                self.book.applied("delivery", id=name, number=message["deliveries"])
                return Answer(200, {"message": message, "left": len(self._messages)})
        return Answer(200, {"message": None, "left": len(self._messages)})

    def _ack(self, body: dict[str, Any]) -> Answer:
        self._messages.pop(body["id"], None)
        self.book.applied("ack", id=body["id"])
        return Answer(200, {})
