"""Triage of a support inbox: a model classifies, the CRM gets a ticket, the sender a mail."""

from __future__ import annotations

import contextlib
import json
import os
import smtplib
import sys
from email.message import EmailMessage

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import Semel, WorkflowContext, effect, model, native_key, workflow

MODEL = os.environ["MODEL_URL"]
CRM = os.environ["CRM_URL"]
MAIL_HOST, _, MAIL_PORT = os.environ["SMTP_ADDRESS"].partition(":")
LEASE = os.environ.get("LEASE")


class Inbound(BaseModel):
    """A request, as it came in. `request_id` is what the business calls it."""

    request_id: str
    sender: str
    subject: str
    text: str


class Classification(BaseModel):
    """What the model says."""

    category: str
    urgent: bool


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str


class Mail(BaseModel):
    """A mail that the mail server has accepted."""

    message_id: str


class Result(BaseModel):
    """What became of a request."""

    classification: Classification
    ticket: Ticket
    mail: Mail


# The answer is recorded once. A crash between the answer and its record asks, and pays, once more:
# that is all a model can offer.
@model(retries=3)
async def classify(subject: str, text: str) -> Classification:
    """Asks the model."""
    async with httpx.AsyncClient(base_url=MODEL, timeout=20) as client:
        answer = await client.post("/classify", json={"subject": subject, "text": text})
    return Classification.model_validate(answer.raise_for_status().json())


# The subject has a model's word in it, so it is no part of what makes this the same intent.
@effect(
    "crm-ticket",
    key="{request_id}",
    fingerprint=["request_id"],
    contract=native_key(retention="24h"),
    lease=LEASE,
)
async def create_ticket(request_id: str, subject: str) -> Ticket:
    """Creates the ticket; the client passes the key on."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": request_id, "subject": subject})
    return Ticket.model_validate(answer.raise_for_status().json())


# SMTP cannot recognise a repeat, so no contract is declared: at most once. `v1` is this wording.
@effect(
    "ack-mail",
    key=["{request_id}", "{sender}", "v1"],
    lease=LEASE,
    deadline=os.environ.get("DEADLINE"),
    settle_window=os.environ.get("SETTLE_WINDOW"),
)
def acknowledge(request_id: str, sender: str, ticket_id: str) -> Mail:
    """Tells the sender the ticket's number."""
    message = EmailMessage()
    # Derived from the intent, so that a person can look for it at the mail server.
    message["Message-ID"] = f"<{semel.intent().downstream_key}@triage.example>"
    message["From"] = "Support <support@triage.example>"
    message["To"] = sender
    message["Subject"] = f"Your request {request_id} is {ticket_id}"
    message.set_content("Thank you, we are on it.")
    server = smtplib.SMTP(MAIL_HOST, int(MAIL_PORT), timeout=20)
    server.send_message(message)
    # It was accepted: how the connection ends is of no interest.
    with contextlib.suppress(Exception):
        server.quit()
    return Mail(message_id=message["Message-ID"])


@workflow
async def triage(ctx: WorkflowContext, inbound: Inbound) -> Result:
    """One request, from the inbox to the acknowledgement."""
    found = await ctx.step(classify, inbound.subject, inbound.text)
    subject = f"[{found.category}] {inbound.subject}"
    ticket = await ctx.step(create_ticket, inbound.request_id, subject)
    mail = await ctx.step(acknowledge, inbound.request_id, inbound.sender, ticket.id)
    return Result(classification=found, ticket=ticket, mail=mail)


SENDER = "ada@customer.example"


def mail_key(request_id: str) -> list[str]:
    """The key of the acknowledgement: the ticket's number is no part of it."""
    return acknowledge.key_of(request_id, SENDER, ticket_id="")


def trigger(app: Semel, request_id: str) -> semel.RunHandle[Result]:
    """The event comes in. Its id is the key: delivered twice, it is the same run."""
    inbound = Inbound(
        request_id=request_id,
        sender=SENDER,
        subject=f"{request_id}: the printer is on fire",
        text="It began after lunch.",
    )
    return app.start(triage, inbound, key=f"event-{request_id}")


def outcome(app: Semel, request_id: str, run: semel.RunHandle[Result]) -> object:
    """What became of it, or that a person has to look for the mail."""
    while True:
        try:
            return run.result(timeout=0.5).model_dump()
        except TimeoutError:
            mail = app.find(acknowledge, mail_key(request_id))
            if mail is not None and mail["state"] == "in_doubt":
                return {"in_doubt": "ack-mail"}


def settle(app: Semel, request_id: str, message_id: str = "") -> None:
    """A person has looked at the mail server: there it is, or it is to be sent."""
    decision, receipt = ("done", Mail(message_id=message_id)) if message_id else ("retry", None)
    reason = "looked at the mail server"
    key = mail_key(request_id)
    app.resolve(acknowledge, key, decision, receipt=receipt, reason=reason, actor="ada")


def main() -> None:
    """`app.py REQUEST...`, each delivered twice, or `app.py settle REQUEST [MESSAGE-ID]`."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    match sys.argv[1:]:
        case ["settle", request_id, *message_id]:
            settle(app, request_id, *message_id)
        case requests:
            requests = requests or ["request-42"]
            runs = {request: [trigger(app, request) for _ in "12"] for request in requests}
            ends = {name: [outcome(app, name, run) for run in two] for name, two in runs.items()}
            print(json.dumps(ends))
    app.close()


if __name__ == "__main__":
    main()
