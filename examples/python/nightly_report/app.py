"""A report each night: one run for each tick, whoever is awake and however often it is started."""

from __future__ import annotations

import json
import os
import sys

import semel
import semel.httpx
from pydantic import BaseModel
from semel import Refused, Semel, Worker, WorkflowContext, conditional, effect, workflow

CMS = os.environ["CMS_URL"]
LEASE = os.environ.get("LEASE")
EXISTS = 412


class Page(BaseModel):
    """The report, as it stands in the CMS."""

    url: str
    published_by: str


@effect("report", key="{tick}", contract=conditional, lease=LEASE)
async def publish(tick: str, branch: str) -> Page:
    """Creates the page of this tick, or finds that an earlier send of this intent has."""
    path, ours = f"/pages/report/{tick}", semel.intent().downstream_key
    content = {"title": f"{branch}, {tick}", "published_by": ours}
    async with semel.httpx.AsyncClient(base_url=CMS, timeout=20) as cms:
        answer = await cms.put(path, json=content, headers={"If-None-Match": "*"})
        if answer.status_code == EXISTS:
            answer = await cms.get(path)
    page = Page.model_validate(answer.raise_for_status().json())
    if page.published_by != ours:
        raise Refused("somebody else has published under this name")
    return page


@workflow
async def report(ctx: WorkflowContext, branch: str) -> Page:
    """The key of a scheduled run is the schedule's name and its tick: that is what it is about."""
    _, tick = ctx.key.split(",")
    return await ctx.step(publish, tick, branch)


def main() -> None:
    """`app.py serve` works by the clock; `app.py TICK...` makes up for nights by hand, twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    # Said at each start, by every process: it is one schedule.
    app.schedule(
        "nightly", report, cron="0 3 * * *", zone="Europe/Rome", catch_up="once", input="Rome"
    )
    match sys.argv[1:]:
        case ["serve"]:
            Worker(app, workflows=[report]).run()
        case ticks:
            # The key that the schedule gives: whoever comes first, it is one run.
            ticks = ticks or ["2026-11-16T02:00:00Z"]
            runs = {
                tick: [app.start(report, "Rome", key=["nightly", tick]) for _ in "12"]
                for tick in ticks
            }
            ends = {tick: [run.result().model_dump() for run in two] for tick, two in runs.items()}
            print(json.dumps(ends))
    app.close()


if __name__ == "__main__":
    main()
