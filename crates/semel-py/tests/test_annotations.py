"""What annotations say counts, or is refused: no function gets plain JSON in place of its type."""

from __future__ import annotations

import enum

import pytest
from pydantic import BaseModel
from semel import RunPaused, Semel, SemelError, WorkflowContext, effect, workflow


class Order(BaseModel):
    """An input."""

    id: str


def test_an_annotation_that_cannot_be_read_is_refused(app: Semel) -> None:
    calls: list[object] = []

    @effect("unread", key="{order.id}")
    def unread(order: Order, note: "Order" | None = None) -> None:  # noqa: UP037
        calls.append(order)

    with pytest.raises(SemelError, match=r"annotation of .*unread cannot be resolved") as refused:
        unread(Order(id="1"))
    assert (refused.value.code, calls) == ("input_invalid", [])


def test_a_part_of_the_interpreter_has_no_annotations(app: Semel) -> None:
    measure = effect("measure", key=lambda **values: "1")(len)
    assert measure([1, 2]) == 2


@workflow
async def promises_what_is_not(ctx: WorkflowContext) -> enum.Missing:  # type: ignore[name-defined]
    """Its result cannot be typed."""
    return 1


def test_a_run_whose_result_cannot_be_typed_ends(app: Semel) -> None:
    app.offer(promises_what_is_not)
    run = app.start("promises_what_is_not", key="1")  # by its name, as by another process
    with pytest.raises(RunPaused, match="cannot be resolved"):
        run.result(timeout=10)
