"""A series of mails by plain steps."""

from __future__ import annotations

import os
import smtplib
from email.message import EmailMessage
from typing import Any

from semel import WorkflowContext, function, workflow

HOST, _, PORT = os.environ["SMTP_ADDRESS"].partition(":")


@function
def send(letter: str, recipient: str) -> str:
    message = EmailMessage()
    message["From"], message["To"] = "team@nurture.example", recipient
    message["Subject"] = letter
    message.set_content("...")
    with smtplib.SMTP(HOST, int(PORT), timeout=20) as server:
        server.send_message(message)
    return letter


@workflow
async def nurture(ctx: WorkflowContext, contact: dict[str, Any]) -> list[str]:
    first = await ctx.step(send, "welcome", contact["email"])
    await ctx.sleep("3d")
    return [first, await ctx.step(send, "tips", contact["email"])]
