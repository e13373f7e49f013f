"""A part of HubSpot's API: contacts can be searched and created. It knows no idempotency keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request

CONTACTS = "/crm/v3/objects/contacts"


class HubSpot(HttpDestination):
    """Every create is a new contact, whoever asks and how often."""

    name = "hubspot"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._contacts: list[dict[str, Any]] = []

    def apply(self, request: Request) -> Answer:
        if request.line == f"POST {CONTACTS}/search":
            return self._search(request.json())
        if request.line == f"POST {CONTACTS}":
            return self._create(request.json()["properties"])
        return Answer(404, {"status": "error", "category": "OBJECT_NOT_FOUND"})

    def _search(self, question: dict[str, Any]) -> Answer:
        wanted = question["filterGroups"][0]["filters"]
        hits = [contact for contact in self._contacts if _matches(contact, wanted)]
        return Answer(200, {"total": len(hits), "results": hits})

    def _create(self, properties: dict[str, str]) -> Answer:
        contact = {"id": str(101 + len(self._contacts)), "properties": properties}
        self._contacts.append(contact)
        self.book.applied("contact", id=contact["id"], **properties)
        return Answer(201, contact)


def _matches(contact: dict[str, Any], wanted: list[dict[str, str]]) -> bool:
    found = contact["properties"]
    return all(found.get(one["propertyName"]) == one["value"] for one in wanted)
