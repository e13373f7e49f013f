"""The back office of a shop: stock, charges, refunds and parcels, in one book."""

from __future__ import annotations

from pathlib import Path

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request
from destinations.keyed import KeyedAnswers

NOWHERE = "Atlantis"


class Shop(HttpDestination):
    """Honours `Idempotency-Key`, except for refunds: each request pays out once more.

    `POST /reservations`, `/releases`, `/charges`, `/refunds`, `/parcels`, each with an `order`. No
    carrier goes to Atlantis: the answer to that parcel has a `refused` and no id.
    """

    name = "shop"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._count = 0
        self._keyed = KeyedAnswers(
            mismatch=Answer(422, {"error": "the key was used with another request"}),
            in_progress=Answer(409, {"error": "the first request is in progress"}),
        )

    def admit(self, request: Request) -> Answer | None:
        return None if request.path == "/refunds" else self._keyed.admit(request)

    def leave(self, request: Request, answer: Answer | None) -> None:
        if request.path != "/refunds":
            self._keyed.leave(request, answer)

    def apply(self, request: Request) -> Answer:
        kinds = ("reservation", "release", "charge", "refund", "parcel")
        kind = request.path.strip("/").removesuffix("s")
        if request.method != "POST" or kind not in kinds:
            return Answer(404, {"error": "not_found"})
        wish = request.json()
        if kind == "parcel" and wish.get("to") == NOWHERE:
            return Answer(200, {"refused": f"no carrier goes to {NOWHERE}"})
        self._count += 1
        made = {"id": f"{kind}-{self._count}", **wish}
        self.book.applied(kind, **made)
        return Answer(201, made)
