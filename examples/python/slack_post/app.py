"""Announce an order on Slack, which knows no keys: at most once, and a person settles doubts."""

from __future__ import annotations

import json
import os
import sys

import httpx
from pydantic import BaseModel
from semel import InDoubt, NotApplied, Refused, Semel, effect

SLACK = os.environ["SLACK_URL"]
BUSY = 429


class Post(BaseModel):
    """A message, as Slack names it."""

    channel: str
    ts: str


@effect(
    "slack-post",
    key="{order_id}",
    lease=os.environ.get("LEASE"),
    deadline=os.environ.get("DEADLINE"),
    settle_window=os.environ.get("SETTLE_WINDOW"),
)
def announce(order_id: str, channel: str) -> Post:
    """Posts the message. Slack's failures prove that it did not."""
    message = {"channel": channel, "text": f"New order: {order_id}"}
    answer = httpx.post(f"{SLACK}/api/chat.postMessage", json=message, timeout=20)
    if answer.status_code == BUSY:
        raise NotApplied("Slack is limiting the rate and posted nothing")
    said = answer.raise_for_status().json()
    if not said["ok"]:
        raise Refused(f"Slack said {said['error']}")
    return Post.model_validate(said)


def tell(order_id: str) -> object:
    """Announces an order, or says that a person has to look."""
    try:
        return announce(order_id, "#orders").model_dump()
    except InDoubt:
        return {"in_doubt": "slack-post"}


def settle(app: Semel, order_id: str, ts: str = "") -> None:
    """A person has looked at the channel: there it is, or it is to be posted."""
    decision, receipt = ("done", Post(channel="#orders", ts=ts)) if ts else ("retry", None)
    reason = "looked at the channel"
    app.resolve(announce, order_id, decision, receipt=receipt, reason=reason, actor="ada")


def main() -> None:
    """`app.py ORDER...`, each announced twice, or `app.py settle ORDER [TS]`."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    match sys.argv[1:]:
        case ["settle", order_id, *ts]:
            settle(app, order_id, *ts)
        case orders:
            orders = orders or ["order-42"]
            print(json.dumps({order: [tell(order) for _ in "12"] for order in orders}))
    app.close()


if __name__ == "__main__":
    main()
