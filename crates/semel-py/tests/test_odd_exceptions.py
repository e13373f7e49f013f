"""Whatever user code raises, its step, its effect and its run are answered: nobody waits for ever
because an exception is an odd one."""

from __future__ import annotations

from typing import Any

import pytest
from semel import (
    InDoubt,
    NotApplied,
    Refused,
    Semel,
    SemelError,
    WorkflowContext,
    effect,
    function,
    workflow,
)

WAIT_S = 10


class OutOfStock(Refused):
    """Has an `__init__` of its own, and does not call ours."""

    def __init__(self, sku: str) -> None:
        self.sku = sku


class Unreducible(OSError):
    """Cannot say what it is made of."""

    def __reduce__(self) -> Any:
        raise RuntimeError("no")


class HalfCharacter(Refused):
    """Says something that no store takes."""

    def __init__(self) -> None:
        self.detail = "\ud800"


ODD: dict[str, tuple[Any, str]] = {
    "an exception for its detail": (lambda: Refused(ValueError("sold out")), "sold out"),  # type: ignore[arg-type]
    "no detail": (lambda: OutOfStock("a-1"), "effect_failed"),
    "not to be reduced": (lambda: Unreducible(5, "sold out"), "sold out"),
    "half a character": (HalfCharacter, "effect_failed"),
}


@function(retries=0)
def raises(what: str) -> None:
    """Raises an odd one."""
    raise ODD[what][0]()


@function(retries=0)
async def raises_later(what: str) -> None:
    """Raises an odd one."""
    raise ODD[what][0]()


@workflow(exhausted="fail")
async def steps(ctx: WorkflowContext, what: str, later: bool) -> None:
    """Lets go what a step raises."""
    await ctx.step(raises_later if later else raises, what)


@workflow
async def itself(ctx: WorkflowContext, what: str) -> None:
    """Raises an odd one itself."""
    raise ODD[what][0]()


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("later", [False, True])
def test_a_step_is_answered(app: Semel, what: str, later: bool) -> None:
    with pytest.raises(Exception, match=ODD[what][1]):
        app.start(steps, what, later, key="1").result(timeout=WAIT_S)


@pytest.mark.parametrize("what", ODD)
def test_a_run_is_answered(app: Semel, what: str) -> None:
    with pytest.raises(Exception, match=ODD[what][1]):
        app.start(itself, what, key="1").result(timeout=WAIT_S)


def test_an_effect_is_answered(app: Semel) -> None:
    calls: list[str] = []

    @effect("odd", key="{id}", retries=1)
    def send(id: str) -> None:
        calls.append(id)
        raise NotApplied(ConnectionError("no line"))  # type: ignore[arg-type]

    with pytest.raises(SemelError, match="no line"):
        send("1")
    assert calls == ["1", "1"]  # it is a proof like any other


def test_the_detail_is_text_whatever_was_handed_in() -> None:
    error = Refused(ValueError("sold out"))  # type: ignore[arg-type]
    assert error.detail == "sold out"
    assert (OutOfStock("a-1").detail, OutOfStock("a-1").retry_after) == ("", None)


def test_no_retry_takes_one_class_alone(app: Semel) -> None:
    calls: list[int] = []

    @function(no_retry=ValueError)
    def picky() -> None:
        calls.append(1)
        raise ValueError("no")

    @workflow(name="alone")
    async def alone(ctx: WorkflowContext) -> None:
        await ctx.step(picky)

    with pytest.raises(ValueError, match="no"):
        app.start(alone, key="1").result(timeout=WAIT_S)
    assert calls == [1]


def test_what_is_no_class_of_exceptions_is_refused_at_decoration() -> None:
    with pytest.raises(TypeError):
        function(no_retry=("ValueError",))(len)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exhausted"):
        function(exhausted="stop")(len)  # type: ignore[call-overload]


@pytest.mark.parametrize("proof", [NotApplied, Refused])
def test_what_another_effect_came_to_proves_nothing_about_its_caller(
    app: Semel, proof: type[SemelError]
) -> None:
    sent: list[str] = []

    @effect("inner", key="{id}", retries=0)
    def inner(id: str) -> None:
        raise proof("not this one")

    @effect("outer", key="{id}", retries=3)
    def outer(id: str) -> None:
        sent.append(id)  # its own write has landed
        inner(id)

    with pytest.raises(InDoubt):
        outer("1")
    assert sent == ["1"]
    found = app.find(outer, "1")
    assert found is not None
    assert found["state"] == "in_doubt"
