"""Reserve, charge, ship; nobody ships there, so charge and reservation are taken back."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import semel
import semel.httpx
from pydantic import BaseModel
from semel import Semel, WorkflowContext, effect, native_key, workflow

SHOP = os.environ["SHOP_URL"]
LEASE = os.environ.get("LEASE")


class Receipt(BaseModel):
    """What the back office has made: a reservation, a charge, a parcel, or its undo."""

    id: str = ""
    refused: str = ""


class NotShipped(Exception):
    """No carrier takes the parcel."""


async def ask_shop(path: str, wish: dict[str, Any]) -> Receipt:
    """One request to the back office; the client passes the key on."""
    async with semel.httpx.AsyncClient(base_url=SHOP, timeout=20) as shop:
        answer = await shop.post(path, json=wish)
    return Receipt.model_validate(answer.raise_for_status().json())


@effect("release", key="{order_id}", contract=native_key("24h"), lease=LEASE)
async def release(reservation: Receipt, order_id: str) -> Receipt:
    """Takes a reservation back. Its receipt comes first, then what was asked for, by name."""
    return await ask_shop("/releases", {"order": order_id, "of": reservation.id})


# Refunds know no keys here, and cannot be looked for: at most once. One that is cut on its way is
# in doubt and waits for a person; paying out twice would be worse.
@effect(
    "refund",
    key="{order_id}",
    lease=LEASE,
    deadline=os.environ.get("DEADLINE"),
    settle_window=os.environ.get("SETTLE_WINDOW"),
)
async def refund(charge: Receipt, order_id: str) -> Receipt:
    """Takes a charge back."""
    return await ask_shop("/refunds", {"order": order_id, "of": charge.id})


@effect(
    "reserve", key="{order_id}", contract=native_key("24h"), lease=LEASE, compensate_with=release
)
async def reserve(order_id: str) -> Receipt:
    """Puts the goods aside."""
    return await ask_shop("/reservations", {"order": order_id})


@effect("charge", key="{order_id}", contract=native_key("24h"), lease=LEASE, compensate_with=refund)
async def charge(order_id: str, cents: int) -> Receipt:
    """Charges the card."""
    return await ask_shop("/charges", {"order": order_id, "cents": cents})


# A carrier's no is an answer and so a receipt. Raised as `Refused` it would prove something about
# this send alone: after a crash, an earlier one may have said yes, and that is a doubt.
@effect("ship", key="{order_id}", contract=native_key("24h"), lease=LEASE)
async def ship(order_id: str, to: str) -> Receipt:
    """Hands the parcel to a carrier, who may not want it."""
    return await ask_shop("/parcels", {"order": order_id, "to": to})


@workflow(fails=NotShipped)
async def order(ctx: WorkflowContext, order_id: str, to: str) -> Receipt:
    """Three effects. When nobody ships, what was done is undone, the last first."""
    await ctx.step(reserve, order_id)
    await ctx.step(charge, order_id, 4200)
    parcel = await ctx.step(ship, order_id, to)
    if parcel.refused:
        raise NotShipped(parcel.refused)
    return parcel


def outcome(app: Semel, order_id: str, run: semel.RunHandle[Receipt]) -> object:
    """The parcel, or that all was taken back, or that a person has to look for the refund."""
    while True:
        try:
            return run.result(timeout=0.5).model_dump()
        except TimeoutError:
            undo = app.find(refund, order_id)
            if undo is not None and undo["state"] == "in_doubt":
                return {"in_doubt": "refund"}
        except NotShipped:
            # The run ends only when everything is undone.
            return {"taken_back": [undo_id(app, undo, order_id) for undo in (refund, release)]}


def undo_id(app: Semel, undo: semel.Effect[..., Any], order_id: str) -> str:
    """What the back office calls the undo."""
    found = app.find(undo, order_id)
    return "" if found is None else str(found["receipt"]["id"])


def settle(app: Semel, order_id: str, refund_id: str = "") -> None:
    """A person has looked at the account: the refund is there, or it is to be paid."""
    decision, receipt = ("done", Receipt(id=refund_id)) if refund_id else ("retry", None)
    reason = "looked at the account"
    app.resolve(refund, order_id, decision, receipt=receipt, reason=reason, actor="ada")


def main() -> None:
    """`app.py ORDER...`, each placed twice, or `app.py settle ORDER [REFUND-ID]`."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    to = os.environ.get("SHIP_TO", "Atlantis")
    match sys.argv[1:]:
        case ["settle", order_id, *refund_id]:
            settle(app, order_id, *refund_id)
        case orders:
            orders = orders or ["order-42"]
            runs = {one: [app.start(order, one, to, key=one) for _ in "12"] for one in orders}
            ends = {one: [outcome(app, one, run) for run in two] for one, two in runs.items()}
            print(json.dumps(ends))
    app.close()


if __name__ == "__main__":
    main()
