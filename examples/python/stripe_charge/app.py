"""Charge a card once per order, by the real Stripe client."""

from __future__ import annotations

import json
import os
import sys

import semel.stripe
from pydantic import BaseModel
from semel import Semel, effect, native_key

# A client that cannot charge without a key: outside of an effect its writes are refused.
stripe = semel.stripe.client(
    os.environ.get("STRIPE_KEY", "sk_test_local"),
    base_addresses={"api": os.environ["STRIPE_URL"]},
)


class Charge(BaseModel):
    """What Stripe said of the payment."""

    id: str
    amount: int
    status: str


# Stripe keeps keys for at least a day.
@effect(
    "stripe-charge",
    key="{order_id}",
    contract=native_key(retention="24h"),
    lease=os.environ.get("LEASE"),
)
def charge(order_id: str, cents: int) -> Charge:
    """Charges the card of this order."""
    payment = stripe.v1.payment_intents.create(
        {
            "amount": cents,
            "currency": "eur",
            "payment_method": "pm_card_visa",
            "confirm": True,
            "metadata": {"order_id": order_id},
        }
    )
    return Charge(id=payment.id, amount=payment.amount, status=payment.status)


def main() -> None:
    """Charges each order twice, as an impatient customer would."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    orders = sys.argv[1:] or ["order-42"]
    print(json.dumps({order: [charge(order, 4200).model_dump() for _ in "12"] for order in orders}))
    app.close()


if __name__ == "__main__":
    main()
