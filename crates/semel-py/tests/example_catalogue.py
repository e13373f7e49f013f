"""The examples: what each talks to, and how its effects are counted at their destination."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from destinations import (
    Cms,
    Crm,
    HubSpot,
    MessageQueue,
    Model,
    Records,
    Slack,
    Smtp,
    StripeApi,
)
from example_stage import Destination, Stage

Counts = Counter[Any]
Outcome = dict[str, list[Any]]


def nothing_to_settle(stage: Stage, outcome: Outcome) -> int:
    """For destinations that leave no doubts."""
    return 0


def is_doubtful(answer: object) -> bool:
    """Whether a worker told of a doubt."""
    return "in_doubt" in str(answer) or "in doubt" in str(answer)


@dataclass(frozen=True)
class Example:
    """One example, as its tests see it."""

    name: str
    destinations: tuple[type[Destination], ...]
    items: tuple[str, ...]
    objects: Callable[[Stage], Counts]
    """How many objects the destination has, by what they stand for."""
    target: str
    """The destination whose effects are counted."""
    writes: str
    """What the requests that write there are called."""
    settle: Callable[[Stage, Outcome], int] = nothing_to_settle
    """A person settles all doubts: returns how many there were."""
    wants: Callable[[str], set[Any]] | None = None
    """What the objects of one item must stand for, where it is more than the item."""

    def wanted(self) -> set[Any]:
        """What the objects must stand for, each once."""
        if self.wants is not None:
            return {want for item in self.items for want in self.wants(item)}
        if self.name == "nurture_mail":
            return {
                (f"{item}@customer.example", subject) for item in self.items for subject in MAILS
            }
        if self.name == "publish":
            return {f"/pages/{item}/r1" for item in self.items}
        if self.name == "record_update":
            return set(range(1, len(self.items) + 1))
        if self.name == "slack_post":
            return {f"New order: {item}" for item in self.items}
        if self.name == "triage":
            return {(what, item) for what in ("ticket", "mail") for item in self.items}
        return set(self.items)


# How a decision is refused where there is nothing to decide.
NO_DOUBT = ("not_found", "already_settled")
DECISIONS_MAX = 40
MAILS = {"Welcome aboard": "welcome", "Three things to try first": "tips"}


def mails(stage: Stage) -> Counts:
    """Mails by recipient and subject."""
    lines = stage["smtp"].book.lines("applied", what="mail")
    return Counter((line["to"][0], line["subject"]) for line in lines)


def settle_posts(stage: Stage, outcome: Outcome) -> int:
    """Looks at the channel, then says what is there."""
    doubtful = [item for item, answers in outcome.items() if is_doubtful(answers)]
    return sum(decide(stage, [item], partial(posts_of, stage, item)) for item in doubtful)


def posts_of(stage: Stage, item: str) -> list[str]:
    """What a person finds in the channel."""
    posts = stage["slack"].book.lines("applied", text=f"New order: {item}")
    return [post["ts"] for post in posts]


def settle_mails(stage: Stage, outcome: Outcome) -> int:
    """Looks at the mail server, then says what is there."""
    subjects = {letter: subject for subject, letter in MAILS.items()}
    doubtful = [
        (letter, f"{item}@customer.example")
        for item, (states, _) in outcome.items()
        for letter, state in states.items()
        if is_doubtful(state)
    ]
    return sum(
        decide(stage, [letter, to], partial(mails_of, stage, to, subjects[letter]))
        for letter, to in doubtful
    )


def mails_of(stage: Stage, to: str, subject: str) -> list[str]:
    """What a person finds in the mail server's log."""
    lines = stage["smtp"].book.lines("applied", to=[to], subject=subject)
    return [line["message_id"] for line in lines]


def decide(stage: Stage, effect: list[str], look: Callable[[], list[str]]) -> int:
    """Looks and decides until it is accepted: 1, or 0 when there was no doubt."""
    for _ in range(DECISIONS_MAX):
        # What was not there may have landed until the settle window is over: each time a new look.
        refusal = stage.refusal_of("settle", *effect, *look()[:1])
        if not refusal:
            return 1
        if "too_early" not in refusal and "version_changed" not in refusal:
            assert any(code in refusal for code in NO_DOUBT), refusal
            return 0
        time.sleep(0.2)
    raise AssertionError("the settle window does not end")


def by(destination: str, what: str, fact: str) -> Callable[[Stage], Counts]:
    """Counts effects by one of their facts."""
    return lambda stage: stage.count(destination, what, fact)


TICKETS = by("crm", "ticket", "reference")
THREE = ("1", "2", "3")


def three(word: str) -> tuple[str, ...]:
    """Three names."""
    return tuple(f"{word}-{number}" for number in THREE)


CATALOGUE = [
    Example("protect_one_function", (Crm,), three("request"), TICKETS, "crm", "POST /tickets"),
    Example(
        "stripe_charge",
        (StripeApi,),
        three("order"),
        by("stripe", "charge", "order"),
        "stripe",
        "POST /v1/payment_intents",
    ),
    Example(
        "typeform_hubspot",
        (HubSpot,),
        three("token"),
        by("hubspot", "contact", "typeform_token"),
        "hubspot",
        "POST /crm/v3/objects/contacts$",
    ),
    Example("nurture_mail", (Smtp,), ("ada", "bob"), mails, "smtp", "DATA", settle=settle_mails),
    Example(
        "slack_post",
        (Slack,),
        three("order"),
        by("slack", "post", "text"),
        "slack",
        "POST /api/chat.postMessage",
        settle=settle_posts,
    ),
    Example("publish", (Cms,), three("page"), by("cms", "page", "path"), "cms", "PUT /pages"),
    Example(
        "record_update",
        (Records,),
        three("deposit"),
        by("records", "write", "version"),
        "records",
        "PUT /records",
    ),
    Example("queue_consumer", (MessageQueue, Crm), three("event"), TICKETS, "crm", "POST /tickets"),
    Example("agent_tools", (Model, Crm), three("case"), TICKETS, "crm", "POST /tickets"),
    Example("langgraph_node", (Crm,), three("case"), TICKETS, "crm", "POST /tickets"),
]


def tickets_and_mails(stage: Stage) -> Counts:
    """Both effects of a triage, by request."""
    tickets = Counter(("ticket", name) for name in TICKETS(stage).elements())
    lines = stage["smtp"].book.lines("applied", what="mail")
    return tickets + Counter(("mail", line["subject"].split()[2]) for line in lines)


def settle_acknowledgements(stage: Stage, outcome: Outcome) -> int:
    """Looks at the mail server, then says what is there."""
    doubtful = [item for item, answers in outcome.items() if is_doubtful(answers)]
    return sum(
        decide(stage, [item], partial(acknowledgements_of, stage, item)) for item in doubtful
    )


def acknowledgements_of(stage: Stage, item: str) -> list[str]:
    """What a person finds in the mail server's log."""
    lines = stage["smtp"].book.lines("applied", what="mail")
    return [line["message_id"] for line in lines if line["subject"].split()[2] == item]


TRIAGE = Example(
    "triage",
    (Model, Crm, Smtp),
    ("request-1",),
    tickets_and_mails,
    "crm",
    "POST /tickets",
    settle=settle_acknowledgements,
)
