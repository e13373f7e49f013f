"""What comes back is what went in: receipts and inputs of every kind, the first time and again."""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Optional, TypedDict, Union

import pytest
import semel
from conftest import World
from pydantic import BaseModel, field_validator
from semel import InDoubt, InputChanged, Semel, SemelError, effect


class Line(BaseModel):
    sku: str
    price: Decimal


class Order(BaseModel):
    id: uuid.UUID
    lines: list[Line]
    paid: datetime | None = None


class Kind(enum.Enum):
    NEW = "new"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    names: list[str] = field(default_factory=list)
    raw: bytes = b""


@dataclass
class Nested:
    point: Point
    orders: dict[str, Order]


class Answer(TypedDict):
    id: str
    count: int


class Partly(TypedDict, total=False):
    id: str


class Pair(NamedTuple):
    left: int
    right: str


ORDER = Order(id=uuid.UUID(int=1), lines=[Line(sku="a", price=Decimal("1.10"))])
NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=timezone.utc)

VALUES: list[tuple[Any, Any]] = [
    (Order, ORDER),
    (list[Order], [ORDER, ORDER]),
    (dict[str, Line], {"a": Line(sku="b", price=Decimal("0.1"))}),
    (Point, Point(1, ["a"], b"\x00\xff")),
    (Nested, Nested(Point(2), {"o": ORDER})),
    (Answer, {"id": "x", "count": 2}),
    (Partly, {}),
    (Pair, Pair(1, "r")),
    (datetime, NOON),
    (date, date(2026, 1, 2)),
    (timedelta, timedelta(days=1, microseconds=5)),
    (Decimal, Decimal("12345678901234567890.123456789")),
    (uuid.UUID, uuid.UUID(int=7)),
    (Kind, Kind.NEW),
    (Level, Level.HIGH),
    (bytes, bytes(range(256))),
    (Optional[Order], None),
    (Optional[Order], ORDER),
    (Union[int, str], "5"),
    (Union[int, str], 5),
    (Union[Order, Point], Point(3)),
    (int | None, 2**200),
    (int, -(2**64)),
    (float, 0.1),
    (bool, False),
    (None, None),
    (Literal["a", "b"], "b"),
    (tuple[int, ...], (1, 2)),
    (set[str], {"a", "b"}),
    (str, "line\n\u2028 \U0001f600 \x00"),
    (Any, {"a": [1, None, True, "x", {"b": 2.5}]}),
    (Any, None),
    (Any, False),
    (Any, 0),
    (Any, ""),
    (Any, []),
]


def told(one: Any) -> str:
    """The name of a case: the same in every process, whatever the order of a set is there."""
    return str(sorted(one) if isinstance(one, set) else one)[:40]


def returns(annotation: Any, value: Any, world: World) -> Any:
    """An effect that returns a value, and says that it is of this type."""

    def give(id: str) -> Any:
        world.do(id)
        return value

    give.__annotations__["return"] = annotation
    return effect("give", key="{id}")(give)


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=told)
def test_req_l5_a_receipt_comes_back_as_it_was(
    app: Semel, world: World, annotation: Any, value: Any
) -> None:
    give = returns(annotation, value, world)
    for found in (give("1"), give("1")):
        assert found == value
        assert type(found) is type(value)
    assert len(world) == 1


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=told)
def test_an_input_comes_in_as_it_was(app: Semel, annotation: Any, value: Any) -> None:
    seen: list[Any] = []

    def take(id: str, given: Any) -> str:
        seen.append(given)
        return "taken"

    take.__annotations__["given"] = annotation
    declared = effect("take", key="{id}")(take)
    assert declared("1", value) == declared("1", value) == "taken"
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_parameters_of_every_kind_come_in_where_they_belong(app: Semel) -> None:
    @effect("take", key="{a}")
    def take(a: int, /, b: str = "b", *more: Decimal, c: bool = False, **rest: date) -> list[str]:
        return [repr(one) for one in (a, b, more, c, rest)]

    assert take(1) == ["1", "'b'", "()", "False", "{}"]
    assert take(2, "x", Decimal(3), c=True, d=date(2026, 1, 2)) == [
        "2",
        "'x'",
        "(Decimal('3'),)",
        "True",
        "{'d': datetime.date(2026, 1, 2)}",
    ]
    with pytest.raises(TypeError):
        take()  # type: ignore[call-arg]
    with pytest.raises(InputChanged):
        take(1, "other")


def test_a_value_that_fits_its_annotation_is_made_to(app: Semel, world: World) -> None:
    give = returns(Order, {"id": str(uuid.UUID(int=1)), "lines": []}, world)
    assert give("1") == give("1") == Order(id=uuid.UUID(int=1), lines=[])


def test_a_wrong_annotation_loses_no_receipt(app: Semel, world: World) -> None:
    give = returns(Order, {"id": "no uuid"}, world)
    for _ in range(2):
        with pytest.raises(SemelError) as caught:
            give("1")
        assert caught.value.code == "receipt_mismatch"
        assert "Order" in caught.value.detail
        assert "no uuid" not in caught.value.detail, "a receipt may be a secret"
    assert len(world) == 1
    shown = app.find("give", "1")
    assert shown is not None
    assert (shown["state"], shown["receipt"]) == ("done", {"id": "no uuid"})


@pytest.mark.parametrize("value", [object(), math.nan, math.inf, {"a": object()}, "x" * 2**21])
def test_a_receipt_that_cannot_be_stored_is_a_doubt(app: Semel, world: World, value: Any) -> None:
    give = returns(Any, value, world)
    for _ in range(2):
        with pytest.raises(InDoubt):
            give("1")
    assert len(world) == 1, "it happened: it must not happen again"
    assert "stored" in str(app.find("give", "1"))


def test_a_loop_of_references_is_no_receipt(app: Semel, world: World) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InDoubt):
        returns(Any, loop, world)("1")


def test_an_input_that_cannot_be_stored_sends_nothing(app: Semel, world: World) -> None:
    @effect("take", key="{id}")
    def take(id: str, given: Any) -> Any:
        return world.do(given)

    for given in (object(), math.nan, "x" * 2**21):
        with pytest.raises(SemelError) as caught:
            take("1", given)
        assert caught.value.code == "input_invalid"
    assert not world.calls
    assert app.find(take, "1") is None


def test_a_wrong_input_is_refused_without_telling_it(app: Semel, world: World) -> None:
    @effect("take", key="{id}")
    def take(id: str, amount: int) -> Any:
        return world.do(amount)

    with pytest.raises(SemelError) as caught:
        take("1", "my secret")  # type: ignore[arg-type]
    assert caught.value.code == "input_invalid"
    assert "my secret" not in str(caught.value)
    assert not world.calls


class Fussy(BaseModel):
    id: str

    @field_validator("id")
    @classmethod
    def _judge(cls, value: str) -> str:
        if value == "bad":
            raise RuntimeError("a validator that fails in its own way")
        return value


def test_a_validator_that_fails_in_its_own_way_is_a_mismatch(app: Semel, world: World) -> None:
    give = returns(Fussy, Fussy.model_construct(id="bad"), world)
    with pytest.raises(SemelError) as caught:
        give("1")
    assert caught.value.code == "receipt_mismatch"
    assert len(world) == 1


def test_the_recipes_have_receipts(app: Semel, world: World) -> None:
    value = semel.keys.TicketReceipt("open", "T-1", "2026-01-02T00:00:00Z")
    give = returns(semel.keys.TicketReceipt, value, world)
    assert give("1") == give("1") == value


def test_an_annotation_of_nothing_is_refused_before_anything_is_sent(
    app: Semel, world: World
) -> None:
    def give(id: str) -> Any:
        return world.do(id)

    give.__annotations__["return"] = "Missing"
    with pytest.raises(SemelError, match="Missing"):
        effect("give", key="{id}")(give)("1")
    assert not world.calls
    give.__annotations__["return"] = World
    with pytest.raises(SemelError) as caught:
        effect("give", key="{id}")(give)("1")
    assert caught.value.code == "input_invalid"
    assert not world.calls


def test_types_of_a_newer_release_do_not_send_again(app: Semel, world: World) -> None:
    assert returns(Answer, {"id": "x", "count": 2}, world)("1") == {"id": "x", "count": 2}
    assert returns(Partly, {}, world)("1") == {"id": "x"}, "members that are new are left out"
    assert returns(Any, {}, world)("1") == {"id": "x", "count": 2}
    assert len(world) == 1
