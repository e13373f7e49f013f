"""A form's webhook becomes one HubSpot contact, though HubSpot knows no idempotency keys."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import httpx
import semel
from pydantic import BaseModel
from semel import Semel, WorkflowContext, effect, probe, workflow

HUBSPOT = os.environ["HUBSPOT_URL"]
LEASE = os.environ.get("LEASE")
CONTACTS = "/crm/v3/objects/contacts"


class Submission(BaseModel):
    """What we keep of a filled-in form. `token` is the form's own id of it."""

    token: str
    email: str
    name: str


class Contact(BaseModel):
    """A contact, as HubSpot answers."""

    id: str
    properties: dict[str, str]


def find_contact(token: str) -> list[Contact]:
    """Every contact that carries our reference: one, unless something went wrong."""
    ours = {"propertyName": "typeform_token", "operator": "EQ", "value": token}
    question = {"filterGroups": [{"filters": [ours]}]}
    with httpx.Client(base_url=HUBSPOT, timeout=20) as hubspot:
        answer = hubspot.post(f"{CONTACTS}/search", json=question)
    return [Contact.model_validate(hit) for hit in answer.raise_for_status().json()["results"]]


# A cut request may still land, and HubSpot's search lags behind: the settle window covers both.
@effect(
    "hubspot-contact",
    key="{token}",
    contract=probe(find_contact, first=True),
    lease=LEASE,
    deadline=os.environ.get("DEADLINE"),
    settle_window=os.environ.get("SETTLE_WINDOW"),
)
def create_contact(token: str, email: str, name: str) -> Contact:
    """Creates the contact, with our reference in the same call."""
    properties = {"email": email, "firstname": name, "typeform_token": token}
    with httpx.Client(base_url=HUBSPOT, timeout=20) as hubspot:
        answer = hubspot.post(CONTACTS, json={"properties": properties})
    return Contact.model_validate(answer.raise_for_status().json())


@workflow
async def keep_contact(ctx: WorkflowContext, form: Submission) -> Contact:
    """One submission, one contact."""
    return await ctx.step(create_contact, form.token, form.email, form.name)


def webhook(app: Semel, delivery: dict[str, Any]) -> semel.RunHandle[Contact]:
    """Takes a delivery in. A redelivery has the same event id, and is the same run."""
    response = delivery["form_response"]
    answers = {answer["field"]["ref"]: answer[answer["type"]] for answer in response["answers"]}
    form = Submission(token=response["token"], email=answers["email"], name=answers["name"])
    return app.start(keep_contact, form, key=delivery["event_id"])


def delivery_of(token: str) -> dict[str, Any]:
    """A delivery as Typeform sends it."""
    email = {"type": "email", "email": f"{token}@customer.example", "field": {"ref": "email"}}
    name = {"type": "text", "text": "Ada", "field": {"ref": "name"}}
    response = {"form_id": "contact-us", "token": token, "answers": [email, name]}
    return {"event_id": f"event-{token}", "event_type": "form_response", "form_response": response}


def main() -> None:
    """Each submission is delivered twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    tokens = sys.argv[1:] or ["token-42"]
    runs = {token: [webhook(app, delivery_of(token)) for _ in "12"] for token in tokens}
    print(
        json.dumps({name: [run.result().model_dump() for run in two] for name, two in runs.items()})
    )
    app.close()


if __name__ == "__main__":
    main()
