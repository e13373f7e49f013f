"""The examples of long runs: sagas, people, children, entities, callbacks and schedules."""

from __future__ import annotations

from collections import Counter
from functools import partial

from destinations import Agent, Cms, Crm, Records, Shop, StripeApi, Vendors
from example_catalogue import (
    Counts,
    Example,
    Outcome,
    by,
    decide,
    is_doubtful,
    three,
)
from example_stage import Stage


def shop_work(stage: Stage) -> Counts:
    """All that the back office has done, by kind and order."""
    lines = stage["shop"].book.lines("applied")
    return Counter((line["what"], line["order"]) for line in lines)


def taken_back(order_id: str) -> set[tuple[str, str]]:
    """Nobody ships to Atlantis: what was done is undone, and there is no parcel."""
    kinds = ("reservation", "charge", "refund", "release")
    return {(kind, order_id) for kind in kinds}


def settle_refunds(stage: Stage, outcome: Outcome) -> int:
    """Looks at the account, then says what is there."""
    doubtful = [item for item, answers in outcome.items() if is_doubtful(answers)]
    return sum(decide(stage, [item], partial(refunds_of, stage, item)) for item in doubtful)


def refunds_of(stage: Stage, order_id: str) -> list[str]:
    """What a person finds on the account."""
    lines = stage["shop"].book.lines("applied", what="refund", order=order_id)
    return [line["id"] for line in lines]


def jobs_and_tickets(stage: Stage) -> Counts:
    """What was handed over, and what was made of the reports."""
    jobs = Counter(("job", job) for job in stage.count("agent", "job", "job").elements())
    lines = stage["crm"].book.lines("applied", what="ticket")
    return jobs + Counter((line["subject"], line["reference"]) for line in lines)


def requests_and_pages(stage: Stage) -> Counts:
    """Whom the vendors were asked by, and what was published."""
    return stage.count("vendors", "request", "asked") + stage.count("cms", "page", "path")


def refunds_by_amount(stage: Stage) -> Counts:
    """What was paid back, by payment and amount."""
    lines = stage["stripe"].book.lines("applied", what="refund")
    return Counter((line["payment"], line["amount"]) for line in lines)


SAGA_ORDER = Example(
    "saga_order",
    (Shop,),
    three("order"),
    shop_work,
    "shop",
    "POST /refunds",
    settle=settle_refunds,
    wants=taken_back,
)
TWO_AGENTS = Example(
    "two_agents_one_ticket",
    (Records,),
    ("ann", "bob", "cyd"),
    by("records", "write", "by"),
    "records",
    "PUT /records",
)
LONG_AGENT = Example(
    "long_agent",
    (Agent, Crm),
    three("job"),
    jobs_and_tickets,
    "crm",
    "POST /tickets",
    # The first report stands, whatever the agent thinks of later.
    wants=lambda job: {("job", job), (f"{job} is a bearing", job)},
)
VENDOR_RESEARCH = Example(
    "vendor_research",
    (Vendors, Cms),
    ("pumps", "valves"),
    requests_and_pages,
    "vendors",
    "POST /requests",
    wants=lambda name: {
        f"/pages/{name}/offers",
        *(f"{vendor} for {name}" for vendor in ("acme", "globex", "initech")),
    },
)
REFUND_APPROVAL = Example(
    "refund_approval",
    (StripeApi,),
    three("order"),
    refunds_by_amount,
    "stripe",
    "POST /v1/refunds",
    # What was returned is never sent, what was edited is sent as it was approved.
    wants=lambda order_id: {(order_id, 2100)},
)
NIGHTLY_REPORT = Example(
    "nightly_report",
    (Cms,),
    ("2026-11-13T02:00:00Z", "2026-11-14T02:00:00Z", "2026-11-15T02:00:00Z"),
    by("cms", "page", "path"),
    "cms",
    "PUT /pages",
    wants=lambda tick: {f"/pages/report/{tick}"},
)

LONG_RUNS = [
    SAGA_ORDER,
    TWO_AGENTS,
    LONG_AGENT,
    VENDOR_RESEARCH,
    REFUND_APPROVAL,
    NIGHTLY_REPORT,
]
