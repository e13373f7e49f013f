"""A series of mails to each new contact: none of them twice, whatever is restarted."""

from __future__ import annotations

import contextlib
import json
import os
import smtplib
import sys
from email.message import EmailMessage

import semel
from pydantic import BaseModel
from semel import InDoubt, Semel, WorkflowContext, effect, keys, workflow

HOST, _, PORT = os.environ["SMTP_ADDRESS"].partition(":")
PAUSE = os.environ.get("NURTURE_PAUSE", "3d")
LEASE = os.environ.get("LEASE")
SERIES = {"welcome": "Welcome aboard", "tips": "Three things to try first"}


class Contact(BaseModel):
    """Whoever gets the series."""

    id: str
    email: str


class Sent(BaseModel):
    """A mail that the mail server has accepted."""

    message_id: str


def mail_key(letter: str, recipient: str) -> list[str]:
    """One mail for each letter, recipient and wording."""
    return keys.message(letter, recipient, "v1")


# SMTP has no lookup and no keys, and a mail that is missing does less harm than one that comes
# twice: at most once, and after a doubt the series goes on.
@effect(
    "nurture-mail",
    key=mail_key,
    on_doubt="continue",
    lease=LEASE,
    deadline=os.environ.get("DEADLINE"),
    settle_window=os.environ.get("SETTLE_WINDOW"),
)
def send(letter: str, recipient: str) -> Sent:
    """Hands one mail to the mail server."""
    message = EmailMessage()
    # What to look for in the mail server's log, should there be a doubt.
    message["Message-ID"] = f"<{semel.intent().downstream_key}@nurture.example>"
    message["From"] = "Team <team@nurture.example>"
    message["To"] = recipient
    message["Subject"] = SERIES[letter]
    message.set_content("...")
    server = smtplib.SMTP(HOST, int(PORT), timeout=20)
    server.send_message(message)
    # It was accepted: how the connection ends is of no interest.
    with contextlib.suppress(Exception):
        server.quit()
    return Sent(message_id=message["Message-ID"])


@workflow
async def nurture(ctx: WorkflowContext, contact: Contact) -> dict[str, str]:
    """All letters of the series, with a pause between them."""
    states: dict[str, str] = {}
    for letter in SERIES:
        if states:
            await ctx.sleep(PAUSE)
        sent = await ctx.step(send, letter, contact.email)
        states[letter] = "in doubt" if isinstance(sent, InDoubt) else sent.message_id
    return states


def settle(app: Semel, letter: str, recipient: str, message_id: str = "") -> None:
    """A person has looked at the mail server: there it is, or it is let go."""
    decision, receipt = ("done", Sent(message_id=message_id)) if message_id else ("failed", None)
    key = send.key_of(letter, recipient)
    reason = "looked at the mail server"
    app.resolve(send, key, decision, receipt=receipt, reason=reason, actor="ada")


def nurture_all(app: Semel, names: list[str]) -> dict[str, list[dict[str, str]]]:
    """Each contact signs up twice."""
    contacts = [Contact(id=name, email=f"{name}@customer.example") for name in names]
    runs = {one.id: [app.start(nurture, one, key=one.id) for _ in "12"] for one in contacts}
    return {name: [run.result() for run in two] for name, two in runs.items()}


def main() -> None:
    """`app.py NAME...`, or `app.py settle LETTER RECIPIENT [MESSAGE-ID]`."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    match sys.argv[1:]:
        case ["settle", letter, recipient, *message_id]:
            settle(app, letter, recipient, *message_id)
        case names:
            print(json.dumps(nurture_all(app, names or ["ada"])))
    app.close()


if __name__ == "__main__":
    main()
