"""A part of Slack's API: messages are posted. It knows no keys, and posts what it is told."""

from __future__ import annotations

from pathlib import Path

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request

CHANNELS = ("#alerts", "#orders")


class Slack(HttpDestination):
    """Failures, too, are answered with 200; the body says which."""

    name = "slack"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._count = 0

    def apply(self, request: Request) -> Answer:
        if request.line != "POST /api/chat.postMessage":
            return Answer(200, {"ok": False, "error": "unknown_method"})
        message = request.json()
        channel = message.get("channel")
        if channel not in CHANNELS:
            return Answer(200, {"ok": False, "error": "channel_not_found"})
        self._count += 1
        ts = f"1700000000.{self._count:06}"
        self.book.applied("post", channel=channel, text=message["text"], ts=ts)
        return Answer(200, {"ok": True, "channel": channel, "ts": ts})
