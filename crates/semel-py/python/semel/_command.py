"""What all commands of a run have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CodeType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ._body import Body
    from ._native import RunPort

P = ParamSpec("P")
T = TypeVar("T")

_codes: set[CodeType] = set()


def command(fn: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Marks the code of one command: that has its identity since it was called, whenever it
    begins."""
    _codes.add(fn.__code__)
    return fn


def is_command(coro: Any) -> bool:
    """Whether it is one command, such as `ctx.step(…)`."""
    return getattr(coro, "cr_code", None) in _codes


class Commands:
    """A run, as the parts of its context have it."""

    _body: Body
    _port: RunPort
