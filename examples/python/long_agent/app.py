"""Hand a job to somebody else's agent. It reports thrice, once differently: one ticket."""

from __future__ import annotations

import json
import os
import sys
import time

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import InputChanged, Semel, WorkflowContext, effect, native_key, workflow

AGENT = os.environ["AGENT_URL"]
CRM = os.environ["CRM_URL"]
LEASE = os.environ.get("LEASE")


class Finding(BaseModel):
    """What the agent found."""

    text: str


class Taken(BaseModel):
    """What the agent answers when it has taken a job."""

    job: str


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str
    subject: str


# The token is a password for one answer and no part of what is wanted.
@effect("hand-over", key="{job}", fingerprint=["job"], contract=native_key("24h"), lease=LEASE)
async def hand_over(job: str, token: str) -> Taken:
    """Gives the job away."""
    async with semel.httpx.AsyncClient(base_url=AGENT, timeout=20) as agent:
        answer = await agent.post("/jobs", json={"job": job, "token": token})
    return Taken.model_validate(answer.raise_for_status().json())


@effect("crm-ticket", key="{job}", fingerprint=["job"], contract=native_key("24h"), lease=LEASE)
async def open_ticket(job: str, finding: Finding) -> Ticket:
    """Applies what was found."""
    async with semel.httpx.AsyncClient(base_url=CRM, timeout=20) as crm:
        answer = await crm.post("/tickets", json={"reference": job, "subject": finding.text})
    return Ticket.model_validate(answer.raise_for_status().json())


@workflow
async def investigate(ctx: WorkflowContext, job: str) -> Ticket:
    """Hands over, waits for days if need be, applies. No worker is kept busy meanwhile."""
    callback = await ctx.callback("report")
    await ctx.step(hand_over, job, callback.token)
    finding = await callback.answer(timeout="7d", type=Finding)
    return await ctx.step(open_ticket, job, finding)


def webhook(app: Semel, token: str, text: str) -> str:
    """What a route of yours does with a report. The first answer stands."""
    try:
        return "taken" if app.call_back(token, Finding(text=text)) else "known"
    except InputChanged:
        return "refused"


def deliver(app: Semel, job: str) -> list[str]:
    """Brings the agent's reports about a job to the webhook, as soon as there are any."""
    with httpx.Client(base_url=AGENT, timeout=20) as agent:
        while not (reports := agent.get(f"/reports/{job}").raise_for_status().json()):
            time.sleep(0.1)
    return [webhook(app, report["token"], report["text"]) for report in reports]


def main() -> None:
    """Each job is started twice, and every report is delivered."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    jobs = sys.argv[1:] or ["job-42"]
    runs = {job: [app.start(investigate, job, key=job) for _ in "12"] for job in jobs}
    for job in jobs:
        print(f"{job}: {', '.join(deliver(app, job))}", file=sys.stderr)
    print(
        json.dumps({job: [run.result().model_dump() for run in two] for job, two in runs.items()})
    )
    app.close()


if __name__ == "__main__":
    main()
