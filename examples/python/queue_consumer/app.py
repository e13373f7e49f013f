"""Consume a queue that delivers until it hears an acknowledgement: one ticket for each event."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from typing import Any

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import Semel, effect, native_key

QUEUE = os.environ["QUEUE_URL"]
CRM = os.environ["CRM_URL"]


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str
    reference: str


# The key is the event's id. A message id would not do: a producer that retries sends a second one.
@effect(
    "crm-ticket",
    key="{event_id}",
    contract=native_key(retention="24h"),
    lease=os.environ.get("LEASE"),
)
def open_ticket(event_id: str) -> Ticket:
    """Opens the ticket; the client passes the key on."""
    with semel.httpx.Client(base_url=CRM, timeout=20) as crm:
        answer = crm.post("/tickets", json={"reference": event_id})
    return Ticket.model_validate(answer.raise_for_status().json())


def ask(queue: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request to the queue."""
    answer: dict[str, Any] = queue.post(path, json=body).raise_for_status().json()
    return answer


def consume(queue: httpx.Client) -> dict[str, list[object]]:
    """Works until the queue is empty. The acknowledgement comes after the receipt is safe."""
    done: dict[str, list[object]] = defaultdict(list)
    while True:
        answer = ask(queue, "/receive", {})
        message = answer["message"]
        if message is not None:
            event_id = message["body"]["event_id"]
            done[event_id].append(open_ticket(event_id).model_dump())
            ask(queue, "/ack", {"id": message["id"]})
        elif answer["left"] == 0:
            return done
        else:
            time.sleep(0.1)  # somebody has taken the others, and may have died with them


def main() -> None:
    """Sends each event twice, as a producer that lost an answer does, and consumes."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    with httpx.Client(base_url=QUEUE, timeout=20) as queue:
        for event_id in sys.argv[1:] or ["event-42"]:
            for _ in "12":
                ask(queue, "/messages", {"event_id": event_id})
        print(json.dumps(consume(queue)))
    app.close()


if __name__ == "__main__":
    main()
