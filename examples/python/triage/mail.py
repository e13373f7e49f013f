"""Sending a mail, and what a failure of it proves."""

from __future__ import annotations

import contextlib
import os
import smtplib
from email.message import EmailMessage

import semel
from semel import NotApplied, Refused

HOST, _, PORT = os.environ["SMTP_ADDRESS"].partition(":")


def send(recipient: str, message_id: str, subject: str) -> None:
    """Hands one mail to the mail server."""
    message = EmailMessage()
    message["From"] = "Support <support@triage.example>"
    message["To"] = recipient
    message["Message-ID"] = message_id
    message["Subject"] = subject
    message.set_content("Thank you, we are on it.")
    server = smtplib.SMTP(HOST, int(PORT), timeout=20)
    server.send_message(message)
    # It was accepted: how the connection ends is of no interest.
    with contextlib.suppress(Exception):
        server.quit()


def judge(error: BaseException) -> NotApplied | Refused | None:
    """A server that answers with a failure has not taken the mail; no answer proves nothing."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return Refused("the mail server refused the recipient")
    code = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else 0
    # 421 is "closing down", which a server may also say after it took the mail.
    if 400 <= code < 500 and code != 421:
        return NotApplied(f"the mail server answered {code}")
    if 500 <= code < 600:
        return Refused(f"the mail server answered {code}")
    return semel.classify.error(error)
