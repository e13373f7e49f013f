"""Somebody else's agent: takes a job, works for long, and reports more often than it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request
from destinations.keyed import KeyedAnswers


class Agent(HttpDestination):
    """`POST /jobs` with a `job` and a `token`; honours `Idempotency-Key`.

    `GET /reports/<job>` returns what it has to say about a job, again each time: its finding, the
    same once more, and another one that it thought of later.
    """

    name = "agent"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._jobs: dict[str, dict[str, Any]] = {}
        self._keyed = KeyedAnswers(
            mismatch=Answer(422, {"error": "the key was used with another request"}),
            in_progress=Answer(409, {"error": "the first request is in progress"}),
        )

    def admit(self, request: Request) -> Answer | None:
        return self._keyed.admit(request)

    def leave(self, request: Request, answer: Answer | None) -> None:
        self._keyed.leave(request, answer)

    def apply(self, request: Request) -> Answer:
        if request.line == "POST /jobs":
            return self._take(request.json())
        parts = request.parts
        if request.method != "GET" or len(parts) != 2 or parts[0] != "reports":
            return Answer(404, {"error": "not_found"})
        return Answer(200, self._reports(parts[1]))

    def _take(self, wish: dict[str, Any]) -> Answer:
        self._jobs[wish["job"]] = wish
        self.book.applied("job", job=wish["job"], token=wish["token"])
        return Answer(202, {"job": wish["job"]})

    def _reports(self, job: str) -> list[dict[str, Any]]:
        if job not in self._jobs:
            return []
        words = (f"{job} is a bearing", f"{job} is a bearing", f"on reflection, {job} is a belt")
        return [{"token": self._jobs[job]["token"], "text": text} for text in words]
