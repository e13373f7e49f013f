"""Code for the linter to look at: what all snippets begin with, and their marks."""

from __future__ import annotations

from semel.lint import Finding, check_text

PRELUDE = """
import asyncio, dataclasses, functools, hashlib, itertools, json, os, random, smtplib, socket
import threading, time, uuid
from datetime import date, datetime, timedelta, timezone
from typing import Any
import httpx, requests
import semel, semel.httpx, semel.requests, semel.stripe
from pydantic import BaseModel, Field
from semel import (
    AsyncSemel, Retry, Semel, StepContext, WorkflowContext, approval, at_most_once, conditional,
    effect, function, harmless, keys, model, native_key, probe, tool, tools, transaction, workflow,
)

app = Semel("sqlite:semel.db")
crm = semel.httpx.Client(base_url="http://crm.example")
plain = httpx.Client(base_url="http://crm.example")

class Inbound(BaseModel):
    request_id: str
    text: str = ""
    at: float = 0.0

@effect("ticket", key="{request_id}", fingerprint=["request_id"], contract=native_key("24h"))
def create_ticket(request_id: str, subject: str = "") -> dict:
    return crm.post("/tickets", json={"reference": request_id, "subject": subject}).json()

@model
async def classify(text: str) -> Inbound: ...

@function
def clean(text: str) -> str:
    return text.strip()
"""


def look(code: str) -> list[Finding]:
    """What the linter says of a snippet, without what is only worth knowing."""
    return [one for one in check_text(PRELUDE + code) if one.level != "info"]


def marks(text: str) -> set[tuple[str, int]]:
    """The codes that a text says to expect, each at its line: `# bad: SML001`."""
    return {
        (code, number)
        for number, line in enumerate(text.splitlines(), 1)
        if "# bad:" in line
        for code in line.split("# bad:")[1].split()
    }
