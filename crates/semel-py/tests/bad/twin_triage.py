"""Triage without a ledger: every send is a plain step."""

from __future__ import annotations

import os
import smtplib
from email.message import EmailMessage
from typing import Any

import httpx
from semel import WorkflowContext, function, model, workflow

HOST, _, PORT = os.environ["SMTP_ADDRESS"].partition(":")


@model
def classify(text: str) -> str:
    answer = httpx.post(f"{os.environ['MODEL_URL']}/classify", json={"text": text})
    return str(answer.raise_for_status().json()["category"])


@function
def create_ticket(request_id: str, subject: str) -> str:
    wish = {"reference": request_id, "subject": subject}
    answer = httpx.post(f"{os.environ['CRM_URL']}/tickets", json=wish)
    return str(answer.raise_for_status().json()["id"])


@function
def acknowledge(sender: str, ticket: str) -> str:
    message = EmailMessage()
    message["From"], message["To"] = "support@triage.example", sender
    message["Subject"] = f"Your request is {ticket}"
    message.set_content("Thank you, we are on it.")
    with smtplib.SMTP(HOST, int(PORT), timeout=20) as server:
        server.send_message(message)
    return ticket


@workflow
async def triage(ctx: WorkflowContext, inbound: dict[str, Any]) -> str:
    found = await ctx.step(classify, inbound["text"])
    ticket = await ctx.step(create_ticket, inbound["request_id"], found)
    return await ctx.step(acknowledge, inbound["sender"], ticket)
