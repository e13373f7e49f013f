"""Keys: what they are made of, and what is refused to be one."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
from conftest import Script, World
from pydantic import BaseModel, StringConstraints
from semel import Effect, Semel, SemelError, effect, keys


class Inbound(BaseModel):
    request_id: str | None
    line: int = 1


@dataclass
class Event:
    id: str


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def two_places(key: Any) -> Effect[[Any, Any], Any]:
    """An effect of two parameters."""

    @effect("pair", key=key)
    def pair(a: Any, b: Any) -> Any:
        return [a, b]

    return pair


def one_place(key: Any) -> Effect[[Any], Any]:
    """An effect of one parameter."""

    @effect("one", key=key)
    def one(inbound: Any) -> Any:
        return inbound

    return one


@pytest.mark.parametrize(
    ("key", "given", "want"),
    [
        ("{inbound}", "42", ["42"]),
        ("{inbound}", 42, ["42"]),
        ("{inbound}", 2**70, [str(2**70)]),
        ("{inbound}", Colour.RED, ["red"]),
        ("{inbound}", Level.HIGH, ["3"]),
        ("{inbound}", uuid.UUID(int=7), [str(uuid.UUID(int=7))]),
        ("{inbound}", date(2026, 1, 2), ["2026-01-02"]),
        ("order-{inbound}", "42", ["order-42"]),
        ("{inbound.request_id}", Inbound(request_id="r"), ["r"]),
        ("{inbound.id}", Event("e"), ["e"]),
        ("{inbound.id}", {"id": "d"}, ["d"]),
        ("{inbound.a.b}", {"a": {"b": "deep"}}, ["deep"]),
        (["ticket", "{inbound.request_id}"], Inbound(request_id="r"), ["ticket", "r"]),
        (lambda inbound: inbound.request_id, Inbound(request_id="r"), ["r"]),
        (lambda inbound: ["x", inbound.line], Inbound(request_id="r"), ["x", "1"]),
        (lambda inbound: ("x", "y"), None, ["x", "y"]),
        (lambda inbound: keys.ticket(inbound, "create"), "case", ["case", "create"]),
        ("{{literal}}", None, ["{literal}"]),
    ],
)
def test_req_k11_what_a_key_may_be_made_of(key: Any, given: Any, want: list[str]) -> None:
    assert one_place(key).key_of(given) == want


@pytest.mark.parametrize(
    "template", ["{a}:{b}", "{a}{b}", "{a} and {b}", ["{a}:{b}"], ["{a}-{b}", "x"]]
)
def test_several_places_are_unambiguous(template: Any) -> None:
    key_of: Callable[..., list[str]] = two_places(template).key_of
    pairs = [("a:b", "c"), ("a", "b:c"), ("ab", "c"), ("a", "bc"), ("a-b", "c"), ("a", "b-c")]
    found = [tuple(key_of(a, b)) for a, b in pairs]
    assert len(set(found)) == len(pairs)


@pytest.mark.parametrize(
    "template", ["{a}:{b}", "{a}_{b}", "{a}__{b}", "{a}-_-{b}", ["{a}", "{b}"]]
)
def test_what_separates_two_places_is_no_part(template: Any) -> None:
    assert two_places(template).key_of("x", "y") == ["x", "y"]


UNIQUE = "8c5d2a6e-0000-4000-8000-00000000abcd"


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        (uuid.UUID, [uuid.UUID(UNIQUE), UNIQUE, UNIQUE.upper(), UNIQUE.replace("-", "")]),
        (int, [42, "42", "042"]),
        (date, [date(2026, 1, 2), "2026-01-02", datetime(2026, 1, 2)]),
        (Colour, [Colour.RED, "red"]),
        (Annotated[str, StringConstraints(to_lower=True)], ["abc", "ABC"]),
        (uuid.UUID | None, [uuid.UUID(UNIQUE), UNIQUE.upper()]),
    ],
)
@pytest.mark.parametrize("key", ["{id}", lambda id: id])
def test_one_value_in_several_spellings_is_one_intent(
    app: Semel, kind: Any, same: list[Any], key: Any
) -> None:
    calls: list[Any] = []

    def send(id: Any) -> int:
        calls.append(id)
        return len(calls)

    send.__annotations__["id"] = kind
    spelt = effect("spelt", key=key)(send)
    assert [spelt(one) for one in same] == [1] * len(same)
    assert len(calls) == 1
    assert {tuple(spelt.key_of(one)) for one in same} == {tuple(spelt.key_of(calls[0]))}


@pytest.mark.parametrize(
    "bad", ["", "  ", "\n", None, 1.5, True, b"x", ["a"], {"a": 1}, object(), float("nan")]
)
@pytest.mark.parametrize(
    "key", ["{inbound}", ["x", "{inbound}"], "x-{inbound}", lambda inbound: inbound]
)
def test_what_is_no_identifier_is_refused_and_nothing_is_sent(bad: Any, key: Any) -> None:
    if bad == ["a"] and callable(key):
        assert one_place(key).key_of(bad) == ["a"], "a list is the parts of a key"
        return
    with pytest.raises(SemelError) as caught:
        one_place(key).key_of(bad)
    assert caught.value.code == "key_invalid"


def test_a_missing_member_is_refused_as_a_key() -> None:
    for given in (Event("e"), {"id": "d"}, None, Inbound(request_id=None)):
        with pytest.raises(SemelError) as caught:
            one_place("{inbound.request_id}").key_of(given)
        assert caught.value.code == "key_invalid"
        assert "request_id" in caught.value.detail


@pytest.mark.parametrize(
    "key",
    [
        "{nobody}",
        "{nobody.id}",
        "{}",
        "{0}",
        "{a!r}",
        "{a:>5}",
        "{a[0]}",
        "{a",
        "a}",
        "",
        " ",
        [],
        ["{a}", "{nobody}"],
        ["{a}", ""],
        lambda nobody: nobody,
        lambda: [],
    ],
)
def test_a_wrong_template_is_refused_at_decoration(key: Any) -> None:
    with pytest.raises(SemelError) as caught:
        two_places(key).key_of("1", "2")  # a function is only known by what it returns
    assert caught.value.code == "key_invalid"
    if not callable(key) or key.__code__.co_argcount:
        with pytest.raises(SemelError):
            two_places(key)


def test_an_effect_needs_a_key() -> None:
    with pytest.raises(TypeError):
        effect("x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="key"):
        effect(lambda: None, key="x")  # type: ignore[arg-type]


def test_what_no_key_can_hold_is_refused_before_anything_is_sent(app: Semel, world: World) -> None:
    @effect("one", key="{id}")
    def one(id: str) -> Any:
        return world.do(id)

    with pytest.raises(SemelError) as caught:
        one("x" * 300)
    assert caught.value.code == "key_invalid"
    assert not world.calls
    with pytest.raises(SemelError, match="control character"):
        one("a\x00b")
    assert not world.calls
    assert one("Grüße 🎟") == one("Grüße 🎟") == {"number": 1}


def test_req_k9_the_recipes(app: Semel) -> None:
    assert keys.ticket("case-1", "create") == ["case-1", "create"]
    assert keys.message("intent", "ann@example.org", "2") == ["intent", "ann@example.org", "2"]
    assert keys.publish("post", "blog", "r3") == ["post", "blog", "r3"]
    assert keys.record("customer", "rename", "v1") == ["customer", "rename", "v1"]
    for blank in ("", " "):
        with pytest.raises(SemelError) as caught:
            keys.ticket("case-1", blank)
        assert caught.value.code == "key_invalid"


def test_a_time_that_the_business_names_is_a_part_like_any_other() -> None:
    when = datetime(2026, 1, 2, 3, tzinfo=timezone.utc)
    key_of = one_place("{inbound}").key_of
    assert key_of(when) == ["2026-01-02 03:00:00+00:00"]
    # As two hosts, or two sessions of a database, may write the same moment.
    assert key_of(when.astimezone(timezone(timedelta(hours=2)))) == key_of(when)
    assert key_of(when.replace(tzinfo=None)) == ["2026-01-02 03:00:00"]


def test_req_k3_every_process_derives_the_same_key(script: Script, app: Semel) -> None:
    source = """
import json, os
from semel import Semel, effect, native_key
import semel
app = Semel(os.environ["STORE"], namespace=os.environ.get("NAMED", "default"))

@effect("pay", key="{a}:{b}", contract=native_key())
def pay(a: str, b: int) -> str:
    return semel.intent().downstream_key

print(json.dumps([pay.key_of("x", 7), pay("x", 7)]))
"""
    first, second = script.said(source), script.said(source)
    assert first == second
    assert first[0] == ["x", "7"]
