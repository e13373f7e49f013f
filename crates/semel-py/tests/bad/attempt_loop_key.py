# lint: SML003
"""A loop of retries around the effect, each with a key of its own."""

from __future__ import annotations

import os

import semel.httpx
from semel import Semel, effect, native_key

CRM = os.environ["CRM_URL"]


@effect("crm-ticket", key="{request_id}", contract=native_key("24h"))
def create_ticket(request_id: str) -> dict[str, str]:
    """Opens a ticket."""
    with semel.httpx.Client(base_url=CRM, timeout=20) as crm:
        answer = crm.post("/tickets", json={"reference": request_id})
    return answer.raise_for_status().json()


def take_request(request_id: str) -> dict[str, str]:
    """What a route does: it tries three times, and opens up to three tickets."""
    for attempt in range(3):
        try:
            return create_ticket(f"{request_id}/{attempt}")  # bad: SML003
        except TimeoutError:
            continue
    raise TimeoutError


if __name__ == "__main__":
    with Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db")):
        take_request("request-42")
