"""What errors of stripe prove when it sends by a client of its own; each is let happen.

With `semel.stripe`, which counts the tries, more is proven: see test_clients_stripe.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import stripe
from classify_kit import (
    CUTS,
    STATUSES,
    at_full_backlog,
    at_nobody,
    at_provider,
    happened,
    patience_s,
    verdict,
)
from stand_ins import Provider

CHARGE: Any = {"amount": 4200, "currency": "eur"}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripe waits half a second or more between two tries."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.001)


def client(url: str, http: stripe.HTTPClient, tries_more: int) -> stripe.StripeClient:
    return stripe.StripeClient(
        "sk_test",
        base_addresses={"api": url},
        http_client=http,
        max_network_retries=tries_more,
    )


def with_requests(url: str, tries_more: int = 0) -> None:
    client(url, stripe.RequestsClient(timeout=patience_s()), tries_more).v1.charges.create(CHARGE)


def with_httpx(url: str, tries_more: int = 0) -> None:
    async def call() -> None:
        http = stripe.HTTPXClient(timeout=patience_s())
        await client(url, http, tries_more).v1.charges.create_async(CHARGE)
        await http.close_async()  # type: ignore[no-untyped-call]

    asyncio.run(call())


CLIENTS: dict[str, Callable[..., None]] = {"requests": with_requests, "httpx": with_httpx}

# Left alone, stripe does not say how often it has tried. Only these hold for every try.
HOLD_FOR_EVERY_TRY = {"400", "402"}


@pytest.mark.parametrize("http", CLIENTS)
@pytest.mark.parametrize("word", [*STATUSES, *CUTS])
def test_what_an_answer_proves(http: str, word: str) -> None:
    want = STATUSES[word] if word in HOLD_FOR_EVERY_TRY else "unknown"
    assert at_provider(word, CLIENTS[http]) == want


def test_the_word_of_the_caller_counts() -> None:
    for word, want in STATUSES.items():
        assert at_provider(word, with_requests, single_try=True) == want


@pytest.mark.parametrize("http", CLIENTS)
def test_what_never_left_this_machine_was_not_applied(http: str) -> None:
    assert at_nobody(CLIENTS[http]) == "not applied"
    assert at_full_backlog(CLIENTS[http]) == "not applied"


@pytest.mark.parametrize("http", CLIENTS)
def test_after_more_than_one_try_a_refused_connection_proves_nothing(http: str) -> None:
    def call(url: str) -> None:
        CLIENTS[http](url, tries_more=1)

    assert at_provider("last ok-reset", call) == "unknown"
    assert at_nobody(call) == "unknown"


@pytest.mark.parametrize(
    "error",
    [
        # The key was used before with other arguments, or is in use: that send may have landed.
        {"type": "idempotency_error", "message": "Keys can only be used with the same arguments"},
        {"type": "invalid_request_error", "code": "idempotency_key_in_use", "message": "busy"},
        # Old accounts get 400 for too many requests.
        {"type": "invalid_request_error", "code": "rate_limit", "message": "too many"},
        {"type": "invalid_request_error", "code": "lock_timeout", "message": "object is locked"},
    ],
)
def test_a_400_that_is_no_refusal(error: dict[str, Any]) -> None:
    with Provider("400", error=error) as provider:
        assert verdict(happened(lambda: with_requests(provider.url))) == "unknown"
