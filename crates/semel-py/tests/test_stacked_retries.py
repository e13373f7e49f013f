"""Retries upon retries: the client's own, the effect's and the queue's, with a fault in each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import semel.stripe
import stripe
from destinations.faults import Fault
from destinations.stripe_api import StripeApi
from semel import Retry, Semel, WorkflowContext, effect, native_key, workflow

DELIVERIES = 5
CLIENT_RETRIES = 2
URL: dict[str, str] = {}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StripeApi]:
    """A stand-in for Stripe; the real client waits less than it usually does."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.001)
    folder = tmp_path / "stripe"
    folder.mkdir()
    api = StripeApi(folder)
    URL["api"] = api.start()
    yield api
    api.stop()


@effect(
    "stripe-charge",
    key="{order_id}",
    contract=native_key(retention="24h"),
    retries=Retry(attempts=6, first="10ms", longest="20ms"),
)
def charge(order_id: str, cents: int) -> str:
    """Charges an order, by a client that retries by itself."""
    client = semel.stripe.client(
        "sk_test", base_addresses={"api": URL["api"]}, max_network_retries=CLIENT_RETRIES
    )
    payment: Any = {"amount": cents, "currency": "eur", "payment_method": "pm_card_visa"}
    return client.v1.payment_intents.create(payment).id


@workflow
async def pay(ctx: WorkflowContext, order_id: str) -> str:
    """What a delivered event asks for."""
    return await ctx.step(charge, order_id, 4200)


def test_req_r8_stacked_retries_make_one_object(any_app: Semel, api: StripeApi) -> None:
    # The effect: all three tries of the client fail. The queue: whoever delivers does not wait long
    # enough, and delivers again. The client: the answer to what did happen is lost.
    api.faults.add(Fault("reset", "before", request=1))
    api.faults.add(Fault("status", "before", request=2, times=2, status=500))
    api.faults.add(Fault("stall", "before", request=4, seconds=0.3))
    api.faults.add(Fault("reset", "after", request=1))
    ids: list[str] = []

    def deliver() -> None:
        while True:
            handle = any_app.start(pay, "order-1", key="event-1")
            try:
                ids.append(handle.result(timeout=0.1))
            except TimeoutError:
                continue
            return

    threads = [threading.Thread(target=deliver) for _ in range(DELIVERIES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == DELIVERIES and len(set(ids)) == 1
    assert len(api.book.lines("applied")) == 1
    assert len(api.book.lines("arrived")) == 5, "the client, and then the effect, tried again"
    found = any_app.find(charge, "order-1")
    assert found is not None and found["state"] == "done" and len(found["attempts"]) == 2
    # And directly, by somebody who knows nothing of the run.
    assert charge("order-1", 4200) == ids[0]
    assert len(api.book.lines("applied")) == 1
