"""A refund that a person approves, to the cent, before it is sent."""

from __future__ import annotations

import json
import os
import sys
import time

import semel.stripe
from pydantic import BaseModel
from semel import (
    ApprovalReturned,
    RunHandle,
    Semel,
    WorkflowContext,
    approval,
    effect,
    native_key,
    workflow,
)

LEASE = os.environ.get("LEASE")
stripe = semel.stripe.client(
    os.environ.get("STRIPE_KEY", "sk_test_local"),
    base_addresses={"api": os.environ["STRIPE_URL"]},
)


class Wish(BaseModel):
    """A refund that somebody asks for. Edited, it is another version."""

    order_id: str
    version: int
    cents: int
    agent: str = "support-bot"


class Refund(BaseModel):
    """What Stripe said of the refund."""

    id: str
    amount: int


# The question is about the whole wish: another amount under the same key is refused, and under the
# next version it is another intent, with a question of its own.
@effect(
    "refund",
    key=["{wish.order_id}", "v{wish.version}"],
    contract=native_key(retention="24h"),
    approval=approval(
        expires="7d",
        four_eyes=True,
        requested_by="{wish.agent}",
        note="refund for {wish.order_id}",
    ),
    lease=LEASE,
)
def pay_back(wish: Wish) -> Refund:
    """Sends exactly what was approved."""
    refund = stripe.v1.refunds.create({"payment_intent": wish.order_id, "amount": wish.cents})
    return Refund(id=refund.id, amount=refund.amount)


@workflow
async def refund(ctx: WorkflowContext, wish: Wish) -> Refund:
    """Waits for the person, for seven days, and no process is kept busy meanwhile."""
    return await ctx.step(pay_back, wish)


def submit(app: Semel, wish: Wish) -> RunHandle[Refund]:
    """Asks for a refund. The same version submitted again is the same run."""
    return app.start(refund, wish, key=[wish.order_id, f"v{wish.version}"])


def click(app: Semel, wish: Wish, run: RunHandle[Refund], button: str) -> None:
    """Ann decides, and clicks once more; then Bob denies. Only the first click counts."""
    while run.state not in ("done", "failed"):
        for question in app.approvals():
            if question.input != {"wish": wish.model_dump()}:
                continue
            if button == "return":
                question.return_("half of it is enough", actor="ann")
            else:
                question.approve("as agreed", actor="ann")
            second = question.deny("too much", actor="bob")
            print(
                f"{wish.order_id} v{wish.version}: {second.answer} by {second.by}", file=sys.stderr
            )
        time.sleep(0.05)


def play(app: Semel, order_id: str) -> list[object]:
    """The whole story of one order: asked, returned, asked again, edited, approved."""
    first = Wish(order_id=order_id, version=1, cents=4200)
    run = submit(app, first)
    click(app, first, run, "return")
    for again in (run, submit(app, first)):  # unchanged, it is the same intent: no new question
        try:
            again.result()
        except ApprovalReturned as returned:
            print(f"{order_id} v1: {returned.note}", file=sys.stderr)
    edited = Wish(order_id=order_id, version=2, cents=2100)
    run = submit(app, edited)
    click(app, edited, run, "approve")
    return [one.result().model_dump() for one in (run, submit(app, edited))]


def main() -> None:
    """Plays the story for each order."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    orders = sys.argv[1:] or ["order-42"]
    print(json.dumps({order_id: play(app, order_id) for order_id in orders}))
    app.close()


if __name__ == "__main__":
    main()
