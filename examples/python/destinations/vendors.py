"""Vendors that are asked for an offer, and have it ready days later: a large document."""

from __future__ import annotations

from pathlib import Path

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request
from destinations.keyed import KeyedAnswers

OFFER_LINES = 20_000


class Vendors(HttpDestination):
    """`POST /requests` with a `reference` and a `vendor`, which honours `Idempotency-Key`.

    `GET /offers/<vendor>/<reference>` returns the offer once it was asked for.
    """

    name = "vendors"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._asked: set[tuple[str, str]] = set()
        self._keyed = KeyedAnswers(
            mismatch=Answer(422, {"error": "the key was used with another request"}),
            in_progress=Answer(409, {"error": "the first request is in progress"}),
        )

    def admit(self, request: Request) -> Answer | None:
        return self._keyed.admit(request)

    def leave(self, request: Request, answer: Answer | None) -> None:
        self._keyed.leave(request, answer)

    def apply(self, request: Request) -> Answer:
        if request.line == "POST /requests":
            wish = request.json()
            self._asked.add((wish["vendor"], wish["reference"]))
            self.book.applied("request", asked=f"{wish['vendor']} for {wish['reference']}")
            return Answer(202, wish)
        parts = request.parts
        if (
            request.method != "GET"
            or parts[:1] != ["offers"]
            or tuple(parts[1:]) not in self._asked
        ):
            return Answer(404, {"error": "not_found"})
        line = f"{parts[1]} offers {parts[2]} for {len(parts[1]) * 1000} euros\n"
        return Answer(200, {"document": line * OFFER_LINES})
