"""How deep values may be nested: the same limit wherever they come in."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import until
from semel import Semel, SemelError, WorkflowContext, function, workflow
from semel._codec import codec


def test_a_value_nested_too_deep_is_refused_by_its_code() -> None:
    with pytest.raises(SemelError, match="64 levels") as refused:
        codec(Any).load("[" * 100_000 + "]" * 100_000)
    assert refused.value.code == "input_invalid"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@function
def give(levels: int) -> Any:
    return _nested(levels)


@workflow
async def carries(ctx: WorkflowContext, value: Any, levels: int) -> Any:
    return await ctx.step(give, levels)


def test_sixty_four_levels_pass_and_one_more_is_refused(app: Semel) -> None:
    # The arguments are members of one object: that is a level of its own.
    run = app.start(carries, _nested(63), 64, key="fits")
    assert run.result(timeout=30) == _nested(64)
    for levels in (64, 300, 5_000):
        with pytest.raises(SemelError) as refused:
            app.start(carries, _nested(levels), 1, key=f"deep-{levels}")
        assert refused.value.code == "input_invalid"
    too_deep = app.start(carries, 1, 65, key="step")
    until(lambda: too_deep.status()["state"] in ("paused", "failed"))
