"""What all commands of a run have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import CodeType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ._errors import SemelError, text

if TYPE_CHECKING:
    from ._body import Body
    from ._codec import Codec
    from ._native import RunPort

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Commands")

_codes: set[CodeType] = set()


def command(
    fn: Callable[Concatenate[C, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[C, str, P], Coroutine[Any, Any, T]]:
    """Marks the code of one command: that has its identity since it was called, whenever it
    begins."""
    _codes.add(fn.__code__)

    def make(self: C, id: str, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        made = fn(self, id, *args, **kwargs)
        self._body.unawaited.made(made, id)
        return made

    functools.update_wrapper(make, fn)
    return make


def is_command(coro: Any) -> bool:
    """Whether it is one command, such as `ctx.step(…)`."""
    return getattr(coro, "cr_code", None) in _codes


class Commands:
    """A run, as the parts of its context have it."""

    _body: Body
    _port: RunPort

    def _typed(self, id: str, result: Codec, answer: str | None) -> Any:
        """The answer of a command as the code wants it. One that does not fit pauses the run,
        whatever the code does about the exception: it says nothing of what the run came to."""
        try:
            return result.load(answer if answer is not None else "null")
        except SemelError as error:
            self._body.stop(error.code, f"{id}: {text(error)}", id)
            raise
