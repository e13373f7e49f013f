"""`semel.stripe`: the real package against a stand-in that keeps keys as Stripe does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import semel
import semel.stripe
import stripe
from client_kit import in_async_effect, in_effect, open_ledger, with_key
from semel import InDoubt, NotApplied, Refused
from semel._errors import WriteOutsideEffect
from stand_ins import Provider, refusing_url

__all__ = ["open_ledger"]
pytestmark = pytest.mark.usefixtures("ledger")

CHARGE: Any = {"amount": 4200, "currency": "eur"}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripe waits half a second or more between two tries."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.001)


@pytest.fixture
def module_style(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stripe without a client object, set up once for the process."""
    monkeypatch.setattr(stripe, "api_key", "sk_test")
    monkeypatch.setattr(stripe, "max_network_retries", 2)
    monkeypatch.setattr(stripe, "default_http_client", semel.stripe.HTTPClient())
    yield
    stripe.default_http_client.close()  # type: ignore[union-attr]


def payments(url: str, retries: int = 2, **options: Any) -> stripe.StripeClient:
    return semel.stripe.client(
        "sk_test", base_addresses={"api": url}, max_network_retries=retries, **options
    )


def charge(url: str, retries: int = 2, **options: Any) -> str:
    return payments(url, retries, **options).v1.charges.create(CHARGE).id


async def charge_async(url: str, **options: Any) -> str:
    client = payments(url, **options)
    return (await client.v1.charges.create_async(CHARGE)).id


def test_a_write_outside_of_an_effect_is_refused_before_anything_is_sent(
    module_style: None,
) -> None:
    client = payments("http://nobody.invalid")
    for write in (
        lambda: client.v1.charges.create(CHARGE),
        lambda: client.v1.customers.delete("cus_1"),
        lambda: client.v1.charges.create(CHARGE, {"idempotency_key": "mine"}),
        lambda: stripe.Charge.create(**CHARGE),
        lambda: asyncio.run(charge_async("http://nobody.invalid")),
    ):
        with pytest.raises(WriteOutsideEffect) as refusal:
            write()
        assert refusal.value.code == "write_outside_effect"


def test_reads_pass_untouched() -> None:
    with Provider() as provider:
        assert payments(provider.url).v1.charges.retrieve("ch_1").id == "read"
        with_key(lambda: payments(provider.url).v1.charges.retrieve("ch_1"))
        assert provider.keys == [None, None]


def test_every_way_to_write_carries_the_downstream_key(
    module_style: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Provider() as provider:
        monkeypatch.setattr(stripe, "api_base", provider.url)
        client = payments(provider.url)

        def write() -> None:
            client.v1.charges.create(CHARGE)
            client.v1.customers.delete("cus_1")
            client.raw_request("post", "/v1/charges", **CHARGE)
            stripe.Charge.create(**CHARGE)
            stripe.Customer("cus_1").delete()

        key = with_key(write)
        assert provider.keys == [key] * 5


def test_async_writes_carry_it_too(module_style: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(url: str) -> Any:
        async def call() -> str:
            await charge_async(url)
            await charge_async(url, http_client=stripe.AIOHTTPClient())
            await stripe.Charge.create_async(**CHARGE)
            return semel.intent().downstream_key

        return await in_async_effect(call)

    with Provider() as provider:
        monkeypatch.setattr(stripe, "api_base", provider.url)
        key = asyncio.run(write(provider.url))
        assert provider.keys == [key] * 3


def test_a_key_the_caller_set_stands_unless_it_is_like_a_made_up_one() -> None:
    made_up = "0f" * 4 + "-0f0f-0f0f-0f0f-" + "0f" * 6
    with Provider() as provider:
        client = payments(provider.url)

        def write() -> None:
            client.v1.charges.create(CHARGE, {"idempotency_key": "order-1-first"})
            client.v1.charges.create(CHARGE, {"headers": {"idempotency-key": "order-1-next"}})
            client.v1.charges.create(CHARGE, {"idempotency_key": made_up})

        key = with_key(write)
        assert provider.keys == ["order-1-first", "order-1-next", key]


TROUBLES: dict[str, list[str]] = {
    "reset before the effect": ["reset", "ok"],
    "reset after the effect": ["ok-reset", "ok"],
    "twice": ["ok-reset", "ok-reset", "ok"],
    "in progress": ["409", "409", "ok"],
    "500 before the effect": ["500", "ok"],
    "500 after the effect": ["ok500", "ok503", "ok"],
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_retries_of_stripe_make_one_object(trouble: str) -> None:
    with Provider(*TROUBLES[trouble]) as provider:
        assert in_effect(lambda: charge(provider.url)) == "obj_1"
        assert len(provider.objects) == 1
        assert len(provider.keys) == len(TROUBLES[trouble]) and len(set(provider.keys)) == 1


@pytest.mark.parametrize("trouble", TROUBLES)
def test_async_retries_of_stripe_make_one_object(trouble: str) -> None:
    with Provider(*TROUBLES[trouble]) as provider:
        made = asyncio.run(in_async_effect(lambda: charge_async(provider.url)))
        assert made == "obj_1"
        assert len(provider.objects) == 1
        assert len(provider.keys) == len(TROUBLES[trouble]) and len(set(provider.keys)) == 1


def test_attempts_of_semel_after_retries_of_stripe_make_one_object() -> None:
    with Provider("ok-reset", "ok-reset", "ok500", "ok") as provider:
        assert in_effect(lambda: charge(provider.url), retries=1) == "obj_1"
        assert len(provider.objects) == 1
        assert len(provider.keys) == 4 and len(set(provider.keys)) == 1


# What the tries of one call prove together: script, tries that stripe may add, outcome.
OUTCOMES: list[tuple[str, int, type[Exception]]] = [
    ("400", 0, Refused),
    ("402", 0, Refused),
    ("404", 0, Refused),
    ("401", 0, NotApplied),
    ("403", 0, NotApplied),
    ("409", 0, InDoubt),
    ("429", 0, InDoubt),
    ("500", 0, InDoubt),
    ("ok-reset", 0, InDoubt),
    ("ok-reset", 2, InDoubt),
    # The first try may have landed, and neither of these says that it did not.
    ("ok-reset 401", 2, InDoubt),
    ("ok-reset 404", 2, InDoubt),
    ("ok500 403", 2, InDoubt),
    # One key for both tries: had the first succeeded, the second would have been told so.
    ("reset 402", 2, Refused),
]


@pytest.mark.parametrize(("script", "retries", "outcome"), OUTCOMES)
def test_an_error_after_retries_proves_only_what_holds_for_every_try(
    script: str, retries: int, outcome: type[Exception]
) -> None:
    with Provider(*script.split()) as provider:
        with pytest.raises(outcome):
            in_effect(lambda: charge(provider.url, retries))


@pytest.mark.parametrize("retries", [0, 2])
def test_a_refused_connection_is_a_proof_however_often_it_was_tried(retries: int) -> None:
    with pytest.raises(NotApplied):
        in_effect(lambda: charge(refusing_url(), retries))

    async def asynchronous() -> None:
        await in_async_effect(lambda: charge_async(refusing_url()), "order-2")

    with pytest.raises(NotApplied):
        asyncio.run(asynchronous())


def test_options_of_the_http_client_are_taken_once() -> None:
    with Provider() as provider:
        made = in_effect(lambda: charge(provider.url, verify_ssl_certs=False))
        assert made == "obj_1"
    with pytest.raises(ValueError, match="give the options"):
        semel.stripe.HTTPClient(stripe.RequestsClient(), proxy="http://127.0.0.1:1")


def test_a_refused_connection_after_the_charge_is_no_proof() -> None:
    nobody = refusing_url()
    with Provider() as provider:

        def charge_and_count() -> str:
            made = charge(provider.url)
            charge(nobody)  # such as a second account, whose server is away
            return made

        with pytest.raises(InDoubt):
            in_effect(charge_and_count, retries=0)
        assert len(provider.objects) == 1
