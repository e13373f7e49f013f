"""A CRM that creates tickets and honours `Idempotency-Key`."""

from __future__ import annotations

from pathlib import Path

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request
from destinations.keyed import KeyedAnswers


class Crm(HttpDestination):
    """Without a key every request is a ticket of its own."""

    name = "crm"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._count = 0
        self._keyed = KeyedAnswers(
            mismatch=Answer(422, {"error": "the key was used with another request"}),
            in_progress=Answer(409, {"error": "the first request is in progress"}),
        )

    def admit(self, request: Request) -> Answer | None:
        return self._keyed.admit(request)

    def leave(self, request: Request, answer: Answer | None) -> None:
        self._keyed.leave(request, answer)

    def apply(self, request: Request) -> Answer:
        if request.line != "POST /tickets":
            return Answer(404, {"error": "not_found"})
        wish = request.json()
        if not wish.get("reference"):
            return Answer(422, {"error": "reference is missing"})
        self._count += 1
        ticket = {"id": f"ticket-{self._count}", **wish}
        self.book.applied("ticket", **ticket)
        return Answer(201, ticket)
