"""Two agents act on one ticket: one at a time, each on top of what the other has written."""

from __future__ import annotations

import json
import os
import sys

import httpx
import semel.httpx
from pydantic import BaseModel
from semel import Refused, Semel, WorkflowContext, conditional, effect, function, keys, workflow

RECORDS = os.environ["RECORDS_URL"]
LEASE = os.environ.get("LEASE")
TICKET = "ticket-42"
CHANGED = 412


class Ticket(BaseModel):
    """The ticket at one version: how many notes it has, and who wrote the last one."""

    version: int
    value: int
    by: str


@function(retries=5)
async def read(ticket: str) -> Ticket:
    """The ticket as it is now."""
    async with httpx.AsyncClient(base_url=RECORDS, timeout=20) as records:
        answer = await records.get(f"/records/{ticket}")
    return Ticket.model_validate(answer.raise_for_status().json())


def note_key(ticket: str, agent: str, on: Ticket) -> list[str]:
    """The same note on another version is another intent."""
    return keys.record(ticket, f"note of {agent}", f"on {on.version}")


@effect("ticket-note", key=note_key, contract=conditional, lease=LEASE)
async def add_note(ticket: str, agent: str, on: Ticket) -> Ticket:
    """Writes the next version, or finds that an earlier send of this intent has."""
    path, change = f"/records/{ticket}", {"value": on.value + 1, "by": agent}
    async with semel.httpx.AsyncClient(base_url=RECORDS, timeout=20) as records:
        answer = await records.put(path, json=change, headers={"If-Match": f'"{on.version}"'})
        if answer.status_code == CHANGED:
            answer = await records.get(f"{path}/versions/{on.version + 1}")
    written = Ticket.model_validate(answer.raise_for_status().json())
    if written.by != agent:
        raise Refused("somebody who does not ask for the entity has written")
    return written


@workflow
async def act(ctx: WorkflowContext, agent: str) -> Ticket:
    """What one agent does. The key says whether it was done, the entity says who may act."""
    async with ctx.entity(f"ticket:{TICKET}"):
        # Nobody else is in here, so nobody writes between the read and the note.
        found = await ctx.step(read, TICKET)
        return await ctx.step(add_note, TICKET, agent, found)


def main() -> None:
    """All agents at once on one ticket, each told to act twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    agents = sys.argv[1:] or ["triager", "closer"]
    runs = {agent: [app.start(act, agent, key=[TICKET, agent]) for _ in "12"] for agent in agents}
    print(
        json.dumps({name: [run.result().model_dump() for run in two] for name, two in runs.items()})
    )
    app.close()


if __name__ == "__main__":
    main()
