"""AWS Powertools' own idempotency engine, with its records in our ledger, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import requests
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemNotFoundError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from conftest import World, until
from semel import NotApplied
from semel.powertools import SemelPersistenceLayer
from server_kit import Tenant, tenant
from stand_ins import Provider, refusing_url
from webhook_kit import Server

# There is no Lambda around these functions that would say how much time is left.
pytestmark = pytest.mark.filterwarnings("ignore:Couldn't determine the remaining time left")

Order = dict[str, Any]


@pytest.fixture
def shop(server: Server) -> Tenant:
    return tenant(server, role="worker")


def layer(shop: Tenant, **options: Any) -> SemelPersistenceLayer:
    return SemelPersistenceLayer(shop.url, shop.token, action="charge", **options)


def charging(
    shop: Tenant,
    work: Callable[[Order], Any],
    config: IdempotencyConfig | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """A function of Powertools. Without a store that others share it is alone, like a process."""
    store = options.pop("store", None) or layer(shop, **options)
    config = config or IdempotencyConfig(event_key_jmespath="id")

    @idempotent_function(
        data_keyword_argument="order", config=config, persistence_store=store, key_prefix="charge"
    )
    def charge(order: Order) -> Any:
        return work(order)

    return charge


def the_effect(shop: Tenant) -> dict[str, Any]:
    items = shop.ask("GET", "/v1/effects?action=charge").json()["items"]
    assert len(items) == 1, items
    item = items[0]
    assert isinstance(item, dict)
    return item


def test_the_first_call_runs_and_a_repeat_gets_its_result(shop: Tenant, world: World) -> None:
    first = charging(shop, world.do)(order={"id": "42", "cents": 1})
    again = charging(shop, world.do)(order={"id": "42", "cents": 1})
    assert first == again == {"number": 1}
    assert len(world) == 1
    assert the_effect(shop)["receipt"] == first
    assert charging(shop, world.do)(order={"id": "43"}) == {"number": 2}


def test_a_call_that_meets_another_one_is_refused_or_waits_as_it_likes(
    shop: Tenant, world: World
) -> None:
    may_end, runs = threading.Event(), threading.Event()

    def slow(order: Order) -> Any:
        runs.set()
        assert may_end.wait(20)
        return world.do(order)

    first = threading.Thread(target=lambda: charging(shop, slow)(order={"id": "42"}))
    first.start()
    assert runs.wait(20)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        charging(shop, world.do)(order={"id": "42"})
    assert len(world) == 0
    threading.Timer(0.2, may_end.set).start()
    waited = charging(shop, world.do, hold="2s")(order={"id": "42"})
    first.join()
    assert waited == {"number": 1}
    assert len(world) == 1


def test_another_payload_under_the_same_key_is_refused(shop: Tenant, world: World) -> None:
    config = IdempotencyConfig(event_key_jmespath="id", payload_validation_jmespath="cents")
    charging(shop, world.do, config)(order={"id": "42", "cents": 1})
    with pytest.raises(IdempotencyValidationError):
        charging(shop, world.do, config)(order={"id": "42", "cents": 2})
    assert charging(shop, world.do, config)(order={"id": "42", "cents": 1}) == {"number": 1}
    assert len(world) == 1


def test_a_failure_with_proof_lets_the_next_call_run(shop: Tenant, world: World) -> None:
    world.answers = [NotApplied("the card reader is off"), {"number": "second"}]
    with pytest.raises(NotApplied):
        charging(shop, world.do)(order={"id": "42"})
    assert charging(shop, world.do)(order={"id": "42"}) == {"number": "second"}
    assert [attempt["outcome"] for attempt in the_effect(shop)["attempts"]] == [
        "not_applied",
        "applied",
    ]


def test_req_o8_a_refusal_after_the_write_is_a_doubt(shop: Tenant) -> None:
    def post_then_ask(order: Order) -> None:
        requests.post(live.url)
        requests.get(refusing_url())

    with Provider() as live:
        charge = charging(shop, post_then_ask)
        with pytest.raises(requests.ConnectionError):
            charge(order={"id": "42"})
        with pytest.raises(IdempotencyPersistenceLayerError, match="in_doubt"):
            charge(order={"id": "42"})
        assert len(live.seen) == 1
    with pytest.raises(requests.ConnectionError):
        charging(shop, lambda _: requests.post(refusing_url()))(order={"id": "43"})
    attempts = shop.ask("GET", "/v1/effects?action=charge").json()["items"]
    assert {one["attempts"][-1]["outcome"] for one in attempts} == {"unknown", "not_applied"}


def test_a_failure_without_proof_is_a_doubt_unless_it_may_be_repeated(
    shop: Tenant, world: World
) -> None:
    world.answers = [TimeoutError("no answer"), TimeoutError("no answer"), {"number": "second"}]
    with pytest.raises(TimeoutError):
        charging(shop, world.do)(order={"id": "42"})
    with pytest.raises(IdempotencyPersistenceLayerError, match="in_doubt"):
        charging(shop, world.do)(order={"id": "42"})
    assert len(world) == 1
    with pytest.raises(TimeoutError):
        charging(shop, world.do, contract="harmless")(order={"id": "43"})
    again = charging(shop, world.do, contract="harmless")(order={"id": "43"})
    assert again == {"number": "second"}


def test_a_late_failure_does_not_delete_the_record_of_the_one_that_took_over(
    shop: Tenant, world: World
) -> None:
    """With Powertools' own stores it does: the late worker deletes by key, and the effect happens
    again. Here it holds a fence of the past, whether B still runs or has ended."""
    may_fail, runs = threading.Event(), threading.Event()

    def stuck(order: Order) -> Any:
        world.do(order)
        runs.set()
        assert may_fail.wait(20)
        raise NotApplied("late, and wrong")

    failed: list[BaseException] = []
    # Both in one process: the second fence must not become that of the first.
    store = layer(shop, contract="harmless", lease="200ms")

    def late() -> None:
        try:
            charging(shop, stuck, store=store)(order={"id": "42"})
        except Exception as error:
            failed.append(error)

    worker_a = threading.Thread(target=late)
    worker_a.start()
    assert runs.wait(20)
    until(lambda: the_effect(shop)["state"] != "pending")
    began, may_end = threading.Event(), threading.Event()
    results: list[Any] = []

    def slow(order: Order) -> Any:
        began.set()
        assert may_end.wait(20)
        return world.do(order)

    worker_b = threading.Thread(
        target=lambda: results.append(charging(shop, slow, store=store)(order={"id": "42"}))
    )
    worker_b.start()
    assert began.wait(20)
    may_fail.set()
    worker_a.join()
    may_end.set()
    worker_b.join()
    assert [type(error) for error in failed] == [NotApplied]
    assert the_effect(shop)["state"] == "done"
    assert charging(shop, world.do, store=store)(order={"id": "42"}) == results[0]
    assert len(world) == 2


def test_records_are_found_by_key_and_a_missing_one_is_said_so(shop: Tenant, world: World) -> None:
    store = layer(shop)
    with pytest.raises(IdempotencyItemNotFoundError):
        store._get_record("charge#nothing")
    charging(shop, world.do)(order={"id": "42"})
    record = store._get_record(the_effect(shop)["key"])
    assert record.status == "COMPLETED"
    assert record.response_json_as_dict() == {"number": 1}


def test_a_server_that_says_no_is_an_error_and_nothing_runs(shop: Tenant, world: World) -> None:
    store = Tenant(shop.url, shop.namespace, "semel_wrong")
    with pytest.raises(IdempotencyPersistenceLayerError, match="unauthenticated"):
        charging(store, world.do)(order={"id": "42"})
    nobody = Tenant("http://127.0.0.1:9", shop.namespace, shop.token)
    with pytest.raises(IdempotencyPersistenceLayerError):
        charging(nobody, world.do)(order={"id": "42"})
    assert len(world) == 0
