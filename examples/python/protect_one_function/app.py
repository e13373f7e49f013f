"""Protect one function: a route that is called twice opens one ticket."""

from __future__ import annotations

import json
import os
import sys

import httpx
import semel
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel
from semel import Semel, effect, native_key

CRM = os.environ["CRM_URL"]
web = FastAPI()


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str
    reference: str


@effect(
    "crm-ticket",
    key="{request_id}",
    contract=native_key(retention="24h"),
    lease=os.environ.get("LEASE"),
)
def open_ticket(request_id: str, subject: str) -> Ticket:
    """Opens the ticket, or gets the one that this key opened before."""
    ticket = {"reference": request_id, "subject": subject}
    headers = {"Idempotency-Key": semel.intent().downstream_key}
    answer = httpx.post(f"{CRM}/tickets", json=ticket, headers=headers, timeout=20)
    return Ticket.model_validate(answer.raise_for_status().json())


@web.post("/requests/{request_id}")
def take_request(request_id: str, subject: str) -> Ticket:
    """What the browser calls, and calls again when somebody is impatient."""
    return open_ticket(request_id, subject)


def submit(browser: TestClient, request_id: str) -> object:
    """A form is sent."""
    answer = browser.post(f"/requests/{request_id}", params={"subject": "The printer is on fire"})
    return answer.raise_for_status().json()


def main() -> None:
    """Sends the form of each request twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    browser = TestClient(web)
    requests = sys.argv[1:] or ["request-42"]
    print(json.dumps({request: [submit(browser, request) for _ in "12"] for request in requests}))
    app.close()


if __name__ == "__main__":
    main()
