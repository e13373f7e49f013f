"""Effects that are called directly: once per key, whoever calls and however often."""

from __future__ import annotations

import asyncio
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import semel
from conftest import World
from semel import Effect, InputChanged, NotConfigured, Semel, SemelError, effect, native_key


def ticket(world: World, **options: Any) -> Effect[[str, str], Any]:
    """An effect that makes a ticket."""

    @effect("crm-ticket", key="{request_id}", **options)
    def create_ticket(request_id: str, subject: str) -> Any:
        return world.do((request_id, subject))

    return create_ticket


def test_req_l5_a_repeat_gets_the_first_receipt(any_app: Semel, world: World) -> None:
    create = ticket(world)
    first = create("42", "printer on fire")
    assert first == {"number": 1}
    assert create("42", subject="printer on fire") == first
    assert create(request_id="42", subject="printer on fire") == first
    assert len(world) == 1
    assert create("43", "printer on fire") == {"number": 2}


def test_the_receipt_outlives_the_process_that_got_it(store_url: str, world: World) -> None:
    create = ticket(world)
    for _ in range(3):
        app = Semel(store_url)
        assert create("42", "printer on fire") == {"number": 1}
        app.close()
    assert len(world) == 1


def test_threads_that_call_at_once_send_once(any_app: Semel, world: World) -> None:
    create = ticket(world)
    barrier = threading.Barrier(8)

    def call(_: int) -> Any:
        barrier.wait()
        return create("42", "printer on fire")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [{"number": 1}] * 8
    assert len(world) == 1


def test_tasks_that_call_at_once_send_once(any_app: Semel, world: World) -> None:
    @effect(key="{request_id}")
    async def create_ticket(request_id: str) -> Any:
        await asyncio.sleep(0.01)
        return world.do(request_id)

    async def main() -> list[Any]:
        return await asyncio.gather(*(create_ticket("42") for _ in range(20)))

    assert create_ticket.action == "create-ticket"
    assert asyncio.run(main()) == [{"number": 1}] * 20
    assert len(world) == 1


def test_a_sync_effect_runs_in_the_thread_that_calls_it(app: Semel) -> None:
    @effect(key="{key}")
    def where(key: str) -> int:
        return threading.get_ident()

    assert where("1") == threading.get_ident()


def test_a_sync_effect_may_be_called_in_an_event_loop(app: Semel, world: World) -> None:
    create = ticket(world)

    async def main() -> Any:
        return create("42", "x"), create("42", "x")

    assert asyncio.run(main()) == ({"number": 1}, {"number": 1})


class Desk:
    """Effects that are methods."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name

    @effect("desk", key=["{self_name}", "{request_id}"])
    def create(self, self_name: str, request_id: str) -> str:
        self.world.do(request_id)
        return f"{self.name}:{request_id}"

    @effect("desk-later", key="{request_id}")
    async def create_later(self, request_id: str) -> str:
        self.world.do(request_id)
        return f"{self.name}:{request_id}"


def test_methods_are_called_with_their_own_object(app: Semel, world: World) -> None:
    north, south = Desk(world, "north"), Desk(world, "south")
    assert north.create("n", "1") == "north:1"
    assert south.create("s", "1") == "south:1"
    assert south.create("n", "1") == "north:1"
    assert asyncio.run(north.create_later("2")) == "north:2"
    assert asyncio.run(south.create_later(request_id="2")) == "north:2"
    assert len(world) == 3


def test_partials_of_effects(app: Semel, world: World) -> None:
    create = ticket(world)
    later = functools.partial(create, subject="printer on fire")
    assert later("42") == later("42") == create("42", "printer on fire") == {"number": 1}


def test_effects_of_partials_and_callable_objects(app: Semel, world: World) -> None:
    def send(channel: str, request_id: str, subject: str) -> Any:
        return world.do((channel, request_id, subject))

    class Sender:
        def __call__(self, request_id: str) -> Any:
            return world.do(request_id)

    mail = effect("mail", key="{request_id}")(functools.partial(send, "mail"))
    assert mail("1", "hello") == mail("1", "hello") == {"number": 1}
    assert world.calls == [("mail", "1", "hello")]
    post = effect("post", key="{request_id}")(Sender())
    assert post("1") == post("1") == {"number": 2}


def test_req_k12_each_action_is_a_name_space(app: Semel, world: World) -> None:
    @effect("e-mail", key="{request_id}")
    def mail(request_id: str) -> Any:
        return world.do(request_id)

    assert ticket(world)("42", "x") == {"number": 1}
    assert mail("42") == {"number": 2}


def test_namespaces_do_not_meet(sqlite_url: str, world: World) -> None:
    create = ticket(world)
    for name in ("red", "blue"):
        app = Semel(sqlite_url, namespace=name)
        create("42", "x")
        app.close()
    assert len(world) == 2


def test_another_input_under_the_same_key_is_refused(any_app: Semel, world: World) -> None:
    create = ticket(world)
    create("42", "printer on fire")
    with pytest.raises(InputChanged) as caught:
        create("42", "printer is wet")
    assert caught.value.code == "input_changed"
    assert len(world) == 1


def test_req_k8_what_is_not_in_the_fingerprint_may_be_worded_anew(
    any_app: Semel, world: World
) -> None:
    create = ticket(world, fingerprint=["request_id"])
    assert create("42", "printer on fire") == create("42", "the printer burns") == {"number": 1}
    assert world.calls == [("42", "printer on fire")]


def test_fingerprints_by_template_and_by_function(app: Semel, world: World) -> None:
    by_template = ticket(world, fingerprint="{subject}")
    assert by_template("1", "a") == by_template("1", "a")
    with pytest.raises(InputChanged):
        by_template("1", "b")
    by_function = ticket(world, fingerprint=lambda subject: subject.lower().strip())
    assert by_function("2", "Fire") == by_function("2", " fire ")
    with pytest.raises(InputChanged):
        by_function("2", "water")
    by_name = ticket(world, fingerprint="subject")
    assert by_name("3", "a") == by_name("3", "a")
    with pytest.raises(InputChanged):
        by_name("3", "b")


def test_places_of_a_fingerprint_do_not_run_together(app: Semel, world: World) -> None:
    @effect("pay", key="{id}", fingerprint="{payer}:{payee}")
    def pay(id: str, payer: str, payee: str) -> Any:
        return world.do(id)

    pay("1", "a:b", "c")
    with pytest.raises(InputChanged):
        pay("1", "a", "b:c")


def test_a_fingerprint_that_says_nothing_is_the_same_each_time(app: Semel, world: World) -> None:
    create = ticket(world, fingerprint=lambda subject: None)
    assert create("1", "a") == create("1", "b") == {"number": 1}


@pytest.mark.parametrize("fingerprint", [["nobody"], "nobody", "{nobody}", lambda nobody: nobody])
def test_a_fingerprint_of_no_parameter_is_refused_at_decoration(fingerprint: Any) -> None:
    with pytest.raises(SemelError) as caught:
        ticket(World(), fingerprint=fingerprint)
    assert "nobody" in str(caught.value)
    assert "request_id" in str(caught.value)


def test_the_first_stored_input_is_what_is_sent(app: Semel, world: World) -> None:
    world.answers = [semel.NotApplied("busy"), {"number": 2}]
    create = ticket(world, fingerprint=["request_id"], retries=0)
    with pytest.raises(semel.NotApplied):
        create("42", "printer on fire")
    assert create("42", "in other words") == {"number": 2}
    assert world.calls == [("42", "printer on fire")] * 2


def test_the_intent_is_known_inside_and_only_there(app: Semel) -> None:
    seen: list[semel.Intent] = []

    @effect("crm-ticket", key="{id}", contract=native_key())
    def create(id: str) -> str:
        seen.append(semel.intent())
        return semel.intent().downstream_key

    receipt = create("42")
    intent = seen[0]
    assert (intent.namespace, intent.action, intent.key) == ("default", "crm-ticket", "42")
    assert (intent.attempt, intent.fence) == (1, 1)
    assert receipt == intent.downstream_key
    with pytest.raises(SemelError) as caught:
        semel.intent()
    assert caught.value.code == "no_intent"


def test_the_intent_is_known_in_threads_and_tasks_of_an_async_effect(app: Semel) -> None:
    @effect("crm-ticket", key="{id}", contract=native_key())
    async def create(id: str) -> list[str]:
        async def inner() -> str:
            return semel.intent().downstream_key

        in_thread = await asyncio.to_thread(lambda: semel.intent().downstream_key)
        return [await asyncio.create_task(inner()), in_thread]

    first, second = asyncio.run(create("42"))
    assert first == second


def test_downstream_keys_by_template_and_function(app: Semel) -> None:
    @effect("a", key="{id}", downstream_key="order-{id}", contract=native_key())
    def by_template(id: str) -> str:
        return semel.intent().downstream_key

    @effect("b", key="{id}", downstream_key=lambda id: id.upper(), contract=native_key())
    def by_function(id: str) -> str:
        return semel.intent().downstream_key

    assert by_template("x7") == "order-x7"
    assert by_function("x7") == "X7"
    found = app.find("a", "x7")
    assert found is not None
    assert found["downstream_key"] == "order-x7"


def test_without_a_semel_nothing_is_sent(world: World) -> None:
    with pytest.raises(NotConfigured) as caught:
        ticket(world)("42", "x")
    assert caught.value.code == "not_configured"
    assert "Semel(" in caught.value.detail
    assert not world.calls


def test_with_several_semels_one_must_be_chosen(sqlite_url: str, world: World) -> None:
    red, blue = Semel(sqlite_url, "red"), Semel(sqlite_url, "blue")
    create = ticket(world)
    try:
        with pytest.raises(NotConfigured):
            create("42", "x")
        with red.as_current():
            create("42", "x")
            with blue.as_current():
                assert create("42", "x") == {"number": 2}
            assert create("42", "x") == {"number": 1}
        with pytest.raises(NotConfigured):
            create("42", "x")
        assert red.find(create, "42") is not None
    finally:
        red.close()
        blue.close()


def test_threads_choose_each_for_itself(sqlite_url: str) -> None:
    red, blue = Semel(sqlite_url, "red"), Semel(sqlite_url, "blue")
    both_in, first_out = threading.Barrier(2), threading.Event()

    @effect("where", key="{id}")
    def where(id: str) -> str:
        return semel.intent().namespace

    def work(app: Semel, id: str) -> str:
        with red.as_current(), app.as_current():
            both_in.wait()
            if id == "second":
                first_out.wait(10)
            found = where(id)
        first_out.set()
        return found

    try:
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(work, blue, "first"), pool.submit(work, red, "second")]
            assert [one.result(20) for one in done] == ["blue", "red"]
    finally:
        red.close()
        blue.close()


def test_leaving_the_block_closes_the_ledger(sqlite_url: str, world: World) -> None:
    with Semel(sqlite_url) as app:
        assert ticket(world)("42", "x")
    with pytest.raises(SemelError) as caught:
        app.find("crm-ticket", "42")
    assert caught.value.code == "store_unavailable"
    with pytest.raises(ZeroDivisionError), Semel(sqlite_url) as other:
        1 / 0  # noqa: B018
    with pytest.raises(SemelError):
        other.find("crm-ticket", "42")


def test_a_closed_semel_is_not_used(sqlite_url: str, world: World) -> None:
    app = Semel(sqlite_url)
    app.close()
    app.close()
    with pytest.raises(SemelError) as caught:
        app.find("crm-ticket", "42")
    assert caught.value.code == "store_unavailable"
    with pytest.raises(NotConfigured):
        ticket(world)("42", "x")
