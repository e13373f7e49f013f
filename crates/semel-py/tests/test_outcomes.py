"""What becomes of an effect whose function does not simply return."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import semel
from conftest import Script, Site, World
from semel import (
    Effect,
    InDoubt,
    NotApplied,
    Refused,
    Retry,
    Semel,
    SemelError,
    WorkflowContext,
    at_most_once,
    conditional,
    effect,
    harmless,
    native_key,
    probe,
    workflow,
)

QUICK = Retry(attempts=4, first="5ms", longest="10ms", total="20s")


def charge(world: World, **options: Any) -> Effect[[str], Any]:
    """An effect that asks the world, and passes its key on."""

    @effect("charge", key="{order}", **{"retries": QUICK, **options})
    def charge(order: str) -> Any:
        key = semel.intent().downstream_key
        return world.do((order, semel.intent().attempt, key))

    return charge


def state(app: Semel, key: str = "7") -> str:
    found = app.find("charge", key)
    assert found is not None
    return str(found["state"])


def test_not_applied_is_tried_again(any_app: Semel, world: World) -> None:
    world.answers = [NotApplied("busy"), NotApplied("busy"), {"id": "ch_1"}]
    assert charge(world)("7") == {"id": "ch_1"}
    assert [(order, attempt) for order, attempt, _ in world.calls] == [("7", 1), ("7", 2), ("7", 3)]
    assert len({key for *_, key in world.calls}) == 1, "each attempt has the same key"


def test_not_applied_to_the_end_is_told_and_may_be_called_again(app: Semel, world: World) -> None:
    world.answers = [NotApplied("busy"), NotApplied("still busy"), {"id": "ch_1"}]
    once = charge(world, retries=0)
    for words in ("busy", "still busy"):
        with pytest.raises(NotApplied, match=words) as caught:
            once("7")
        assert caught.value.code == "not_applied"
    assert once("7") == {"id": "ch_1"}


def test_retries_count_how_often_it_is_tried_again(app: Semel, world: World) -> None:
    world.answers = [NotApplied(str(number)) for number in range(9)]
    with pytest.raises(SemelError):
        charge(world, retries=Retry(attempts=3, first="1ms"))("7")
    assert len(world) == 3
    with pytest.raises(ValueError, match="retries"):
        charge(world, retries=-1)


def test_refused_is_final_for_every_later_caller(any_app: Semel, world: World) -> None:
    world.answers = [Refused("card declined")]
    for _ in range(3):
        with pytest.raises(Refused, match="card declined") as caught:
            charge(world)("7")
        assert caught.value.code == "effect_failed"
    assert len(world) == 1
    assert state(any_app) == "failed"


def test_req_l11_an_unknown_end_is_in_doubt_and_never_sent_again(
    any_app: Semel, world: World
) -> None:
    world.answers = [RuntimeError("the line was cut")]
    create = charge(world, contract=at_most_once)
    for _ in range(3):
        with pytest.raises(InDoubt) as caught:
            create("7")
        assert caught.value.code == "in_doubt"
    assert len(world) == 1
    assert state(any_app) == "in_doubt"
    shown = any_app.find(create, "7")
    assert shown is not None
    assert "RuntimeError: the line was cut" in str(shown)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), MemoryError()])
def test_an_exception_of_any_kind_is_unknown(
    app: Semel, world: World, error: BaseException
) -> None:
    world.answers = [error]
    with pytest.raises(InDoubt if isinstance(error, Exception) else type(error)):
        charge(world)("7")
    with pytest.raises(InDoubt):
        charge(world)("7")
    assert len(world) == 1


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_without_words_is_unknown_like_any_other(app: Semel, world: World) -> None:
    world.answers = [Unspeakable()]
    with pytest.raises(InDoubt):
        charge(world)("7")

    @effect("later", key="{id}")
    async def later(id: str) -> None:
        raise Unspeakable

    with pytest.raises(InDoubt):
        asyncio.run(asyncio.wait_for(later("1"), 20))


@pytest.mark.parametrize("decision", ["done", "retry", "failed"])
def test_a_person_settles_a_doubt(any_app: Semel, world: World, decision: str) -> None:
    world.answers = [RuntimeError("?"), {"id": "second"}]
    create = charge(world, settle_window="1ms")
    with pytest.raises(InDoubt):
        create("7")
    time.sleep(0.05)  # before its settle window is over, a request may still land
    receipt = {"id": "found"} if decision == "done" else None
    any_app.resolve(create, "7", decision, receipt=receipt, reason="looked", actor="ann")
    if decision == "failed":
        with pytest.raises(Refused):
            create("7")
    else:
        assert create("7") == {"id": "found" if decision == "done" else "second"}
    assert len(world) == (2 if decision == "retry" else 1)
    assert "ann" in str(any_app.find(create, "7"))


def test_a_decision_that_is_none_is_refused(app: Semel, world: World) -> None:
    world.answers = [RuntimeError("?")]
    create = charge(world)
    with pytest.raises(InDoubt):
        create("7")
    for decision in ("maybe", "DONE", ""):
        with pytest.raises(SemelError) as caught:
            app.resolve(create, "7", decision, reason="?")
        assert caught.value.code == "input_invalid"
    assert state(app) == "in_doubt"


def test_a_settled_effect_is_not_decided_again(app: Semel, world: World) -> None:
    create = charge(world)
    create("7")
    with pytest.raises(SemelError):
        app.resolve(create, "7", "failed", reason="?")
    assert create("7") == {"number": 1}
    with pytest.raises(SemelError) as caught:
        app.resolve(create, "8", "failed", reason="?")
    assert caught.value.code == "not_found"


def test_req_l17_with_a_native_key_an_unknown_end_is_sent_again(
    any_app: Semel, world: World
) -> None:
    world.answers = [RuntimeError("cut"), RuntimeError("cut"), {"id": "ch_1"}]
    assert charge(world, contract=native_key("24h"))("7") == {"id": "ch_1"}
    assert len(world) == 3
    assert len({key for *_, key in world.calls}) == 1


def test_a_native_key_that_was_not_read_is_no_native_key(app: Semel, world: World) -> None:
    @effect("careless", key="{order}", contract=native_key(), retries=QUICK)
    def careless(order: str) -> Any:
        return world.do(order)

    world.answers = [RuntimeError("cut")]
    with pytest.raises(InDoubt, match="key_not_used"):
        careless("7")
    with pytest.raises(InDoubt):
        careless("7")
    assert len(world) == 1


def test_req_r2_a_lost_answer_makes_no_second_object(app: Semel, site: Site) -> None:
    import httpx

    cut = [True]

    @effect("create", key="{name}", contract=native_key(), retries=QUICK)
    def create(name: str) -> dict[str, Any]:
        headers = {"Idempotency-Key": semel.intent().downstream_key}
        answer = httpx.post(f"{site.url}/things", json={"name": name}, headers=headers).json()
        if cut.pop() if cut else False:
            raise httpx.ReadTimeout("the answer was lost")
        return dict(answer)

    assert create("x") == {"id": "object-1", "name": "x"}
    assert len(site.requests) == 2
    assert len(site.objects) == 1
    assert {key for _, key, _ in site.requests} == {next(iter(site.objects))}


@pytest.mark.parametrize("contract", [harmless, conditional], ids=lambda one: one.name)
def test_harmless_and_conditional_are_sent_again(app: Semel, world: World, contract: Any) -> None:
    world.answers = [RuntimeError("cut"), {"id": 2}]
    assert charge(world, contract=contract)("7") == {"id": 2}


@pytest.mark.parametrize(
    ("found", "want", "sent"), [(None, {"number": 2}, 2), ({"id": "there"}, {"id": "there"}, 1)]
)
def test_req_l16_a_probe_looks_before_it_sends_again(
    any_app: Semel, world: World, found: Any, want: Any, sent: int
) -> None:
    looked = []

    def look(order: str) -> Any:
        looked.append(order)
        return found

    world.answers = [RuntimeError("cut")]
    create = charge(world, contract=probe(look), settle_window="50ms")
    assert create("7") == want
    assert len(world) == sent
    assert looked == ["7"]


def test_a_probe_that_looks_first_sends_nothing_that_is_there(app: Semel, world: World) -> None:
    create = charge(world, contract=probe(lambda order: {"id": f"old-{order}"}, first=True))
    assert create("7") == {"id": "old-7"}
    assert not world.calls


def test_an_async_look_and_a_look_that_fails(app: Semel, world: World) -> None:
    async def look(order: str) -> Any:
        raise OSError("the index is down")

    @effect("later", key="{order}", contract=probe(look), settle_window="30ms", retries=QUICK)
    async def create(order: str) -> Any:
        return world.do(order)

    world.answers = [RuntimeError("cut")]
    with pytest.raises(InDoubt):
        asyncio.run(create("7"))
    assert len(world) == 1, "a look that fails proves nothing"


def test_two_hits_are_told(app: Semel, world: World) -> None:
    create = charge(world, contract=probe(lambda: [{"id": 1}, {"id": 2}], first=True))
    assert create("7") == {"id": 1}
    shown = app.find(create, "7")
    assert shown is not None
    assert '"id": 2' in str(shown).replace("'", '"'), "the second hit is an alarm in the ledger"


def test_a_look_with_other_parameters_is_refused_at_decoration(world: World) -> None:
    with pytest.raises(SemelError, match="nobody"):
        charge(world, contract=probe(lambda nobody: None))


def test_classify_says_what_an_exception_proves(app: Semel, world: World) -> None:
    def judge(error: BaseException) -> NotApplied | Refused | None:
        if isinstance(error, LookupError):
            return Refused("no such customer")
        return NotApplied("not yet") if isinstance(error, BlockingIOError) else None

    world.answers = [BlockingIOError(), LookupError("x")]
    with pytest.raises(Refused):
        charge(world, classify=judge)("7")
    assert len(world) == 2
    world.answers = [OSError()]
    with pytest.raises(InDoubt):
        charge(world, classify=judge)("8")
    world.answers = [OSError()]
    with pytest.raises(InDoubt):
        charge(world, classify=lambda error: error.nothing)("9")  # type: ignore[attr-defined]


def test_a_refused_connection_proves_that_nothing_was_sent(app: Semel, world: World) -> None:
    world.answers = [ConnectionRefusedError(111, "refused"), {"id": 1}]
    assert charge(world)("7") == {"id": 1}


@workflow
async def goes_on(ctx: WorkflowContext, order: str) -> str:
    found = await ctx.step(_doubtful, order)
    return type(found).__name__ + ":" + getattr(found, "code", "")


@effect("doubtful", key="{order}", on_doubt="continue")
def _doubtful(order: str) -> Any:
    raise RuntimeError("cut")


def test_a_workflow_may_go_on_with_a_doubt(app: Semel) -> None:
    assert app.start(goes_on, "7", key="a").result(timeout=20) == "InDoubt:in_doubt"
    with pytest.raises(ValueError, match="on_doubt"):
        effect("x", key="y", on_doubt="panic")(lambda: None)  # type: ignore[arg-type]


def test_req_r4_a_retry_beyond_the_retention_is_refused_at_decoration(world: World) -> None:
    with pytest.raises(SemelError) as caught:
        charge(world, contract=native_key("1h"), retries=Retry(total="2h"))
    assert caught.value.code == "retry_beyond_retention"
    with pytest.raises(SemelError) as caught:
        charge(world, deadline="soon")
    assert caught.value.code == "duration_invalid"


def test_only_a_person_opens_a_new_generation(
    app: Semel, world: World, script: Script, sqlite_url: str
) -> None:
    create = charge(world)
    assert create("7") == {"number": 1}
    before = app.find(create, "7")
    assert before is not None
    line = ["effects", "supersede", "charge/7", "--reason", "twice is right", "--actor", "ann"]
    seen = ["--version", str(before["version"])]
    done = script.run("-m", "semel", "--store", sqlite_url, *line, *seen)
    assert done.returncode == 0, done.stderr
    assert create("7") == create("7") == {"number": 2}
    shown = app.find(create, "7")
    assert shown is not None
    assert shown["generation"] == 1
    assert len({key for *_, key in world.calls}) == 2, "a new intent has a new key"


def test_a_sync_function_that_gives_something_to_await_does_not_hang(
    app: Semel, world: World
) -> None:
    async def later() -> Any:
        return world.do("later")

    @effect("confused", key="{id}", deadline="15s")
    def confused(id: str) -> Any:
        return later()

    with pytest.raises(InDoubt):
        confused("7")
    assert "no `async def`" in str(app.find(confused, "7"))
    assert not world.calls


def test_an_async_look_needs_an_async_effect() -> None:
    async def look(order: str) -> None:
        """Looks, in an event loop that a blocking caller has not."""

    with pytest.raises(TypeError, match="look of pay is async"):

        @effect("pay", key="{order}", contract=probe(look))
        def pay(order: str) -> str:
            return order
