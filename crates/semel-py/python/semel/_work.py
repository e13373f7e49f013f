"""Pieces of work that the engine hands to Python: a step, a send, a look."""

from __future__ import annotations

import contextvars
import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from . import _current, _intent, _wire
from ._codec import Codec, codec
from ._errors import NotApplied, Refused, SemelError, describe, text
from ._programming import is_of_a_library, is_programming_error

if TYPE_CHECKING:
    from ._context import StepContext
    from ._effect import Effect
    from ._ledger import App
    from ._native import Inbox, SendIntent, StepTurn

_log = logging.getLogger("semel")


class TooLate(Exception):
    """The time to begin was over before the function was called: it was not."""


class Work(Protocol):
    """Something to do, once for each time that the engine says so."""

    is_async: bool

    def context(self, argument: Any) -> contextvars.Context:
        """The context variables it runs under."""
        ...

    def begin(self, argument: Any) -> Any:
        """Does it; gives something to await when it is async."""

    def reply(self, inbox: Inbox, job: int, value: Any) -> None:
        """Says what it came to."""

    def fail(self, inbox: Inbox, job: int, error: BaseException) -> None:
        """Says why it came to nothing."""


class StepWork:
    """One step of a run: a function and its arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        is_async: bool,
        result: Codec,
        no_retry: tuple[type[BaseException], ...],
        step: StepContext,
    ) -> None:
        self._function = function
        self.is_async = is_async
        self._result = result
        self._no_retry = no_retry
        self._step = step

    def context(self, argument: StepTurn) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(_current.enter_step, self._step.app, self._step.at(argument.attempt))
        return context

    def begin(self, argument: StepTurn) -> Any:
        if not argument.begin():
            raise TooLate
        return self._function()

    def reply(self, inbox: Inbox, job: int, value: Any) -> None:
        try:
            stored = self._result.dump(value)
        except SemelError as error:
            inbox.fail(job, "refused", text(error), describe(error))
        else:
            inbox.reply(job, stored)

    def fail(self, inbox: Inbox, job: int, error: BaseException) -> None:
        proof = "faulty" if is_programming_error(error) else "unknown"
        if isinstance(error, (Refused, *self._no_retry)):
            proof = "refused"
        inbox.fail(job, proof, text(error), describe(error))


class SendWork:
    """The call of an effect, with the input that is stored under its key."""

    def __init__(
        self, effect: Effect[..., Any], instance: Any, app: App, step: StepContext | None
    ) -> None:
        self._effect = effect
        self._instance = instance
        self._app = app
        self._step = step
        self._context = contextvars.copy_context()
        self.is_async = effect.shape.is_async
        self.error: BaseException | None = None
        """What the function raised last."""
        self._attempt = 0
        self.subject = effect.action
        """ACTION/KEY, where it is known."""

    def context(self, argument: SendIntent) -> contextvars.Context:
        context = self._context.copy()
        context.run(_intent._current.set, _intent.Intent(argument))
        context.run(_wire.begin, self._effect.shape.function, self.is_async)
        step = self._step
        context.run(
            _current.enter_step, self._app, None if step is None else step.at(argument.attempt)
        )
        return context

    def begin(self, argument: SendIntent) -> Any:
        self._attempt = argument.attempt
        self.subject = f"{argument.action}/{argument.key}"
        try:
            args, kwargs = self._arguments(argument)
        except Exception as error:
            # Nothing was sent, and another release of the code may know how to.
            raise NotApplied(text(error)) from error
        if not argument.begin():
            raise TooLate
        return self._effect.shape.function(*args, **kwargs)

    def _arguments(self, argument: SendIntent) -> tuple[list[Any], dict[str, Any]]:
        shape = self._effect.shape
        args, kwargs = shape.arguments(shape.load(argument.input))
        if shape.takes_ctx:
            args.insert(0, _current.step_context())
        if self._instance is not None:
            args.insert(0, self._instance)
        return args, kwargs

    def reply(self, inbox: Inbox, job: int, value: Any) -> None:
        try:
            stored = self._effect.shape.result.dump(value)
        except Exception:
            try:
                # It happened: a receipt of another shape is better than a doubt.
                stored = codec(Any).dump(value)
            except Exception as error:
                detail = f"it happened, but its receipt cannot be stored: {text(error)}"
                inbox.fail(job, "unknown", detail, describe(error))
                return
        inbox.reply(job, stored)

    def fail(self, inbox: Inbox, job: int, error: BaseException) -> None:
        self.error = error
        proof = self._effect.proof(error)
        # Without the text of the exception, which may hold what was sent.
        kind, run = (
            type(error).__name__,
            "" if self._step is None else f" of run {self._step.run_id}",
        )
        what = "%s: attempt %s%s raised %s and counts as %s"
        _log.warning(what, self.subject, self._attempt, run, kind, proof)
        inbox.fail(job, proof, text(error), describe(error))


class LookWork:
    """The look of an effect whose destination can be asked."""

    def __init__(
        self,
        effect: Effect[..., Any],
        look: Callable[..., Any],
        instance: Any,
        app: App,
        step: StepContext | None,
    ) -> None:
        from ._shape import is_async

        self._effect = effect
        self._look = look
        self._send = SendWork(effect, instance, app, step)
        self._instance = instance
        self.is_async = is_async(look)

    def context(self, argument: SendIntent) -> contextvars.Context:
        return self._send.context(argument)

    def begin(self, argument: SendIntent) -> Any:
        from ._template import call_with

        values = self._effect.shape.load(argument.input)
        look = self._look
        if self._instance is not None and not hasattr(look, "__self__"):
            look = functools.partial(look, self._instance)
        if not argument.begin():
            raise TooLate
        return call_with(look, values)

    def reply(self, inbox: Inbox, job: int, value: Any) -> None:
        hits = [] if value is None else [value]
        if isinstance(value, list):
            hits = [*cast(Sequence[Any], value)]
        try:
            inbox.found(job, [self._effect.shape.result.dump(hit) for hit in hits])
        except SemelError as error:
            inbox.fail(job, "unknown", text(error), describe(error))

    def fail(self, inbox: Inbox, job: int, error: BaseException) -> None:
        # A look sends nothing: what a client could not read is asked for again.
        is_faulty = is_programming_error(error) and not is_of_a_library(error)
        proof = "faulty" if is_faulty else "unknown"
        inbox.fail(job, proof, text(error), describe(error))
