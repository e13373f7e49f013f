"""What Semel says no with. Every error has a stable `code`; `docs/errors/<code>.md` tells what to
do about it."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

Raised = tuple[str, str, str]
"""An exception as the journal keeps it: its type, what rebuilds it, and its trace."""


class SemelError(Exception):
    """Something Semel refused, or could not do."""

    code: str = "internal"
    # Of the class, too: a subclass of the user's may have an `__init__` that does not call ours.
    detail: str = ""
    retry_after: float | None = None
    """In how many seconds it may be worth asking again."""
    trace: str | None = None
    """The trace of the exception behind this one, when there was one."""
    is_told: bool = False
    """Whether the ledger says so, of an effect that was called: no proof for the one that called
    it."""

    def __init__(
        self, detail: str = "", code: str | None = None, retry_after: float | None = None
    ) -> None:
        detail = str(detail)  # many hand in the exception that they have
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code
        self.retry_after = retry_after
        self.trace = None

    def __str__(self) -> str:
        return f"{self.detail} ({self.code})"


class NotApplied(SemelError):
    """Proof that nothing happened; it may be tried again. An effect's function raises it."""

    code = "not_applied"


class Refused(SemelError):
    """Proof that nothing happened, and nothing ever will under this key. An effect's function
    raises it, and so every caller of the effect gets it."""

    code = "effect_failed"


class InDoubt(SemelError):
    """An attempt was cut between send and answer: nobody knows whether the world changed.

    Raised to direct callers. To a workflow whose effect says `on_doubt="continue"` it is handed as
    the value of the step."""

    code = "in_doubt"


class InputChanged(SemelError):
    """The same key came with another input; nothing was sent or changed."""

    code = "input_changed"


class StepFailed(SemelError):
    """A step has failed for good, and its own exception could not be built again."""

    code = "step_failed"


class RunFailed(SemelError):
    """The workflow ended with an exception that could not be built again."""

    code = "run_failed"


class RunPaused(SemelError):
    """The run stands still until an operator decides."""

    code = "run_paused"


class RunCancelled(SemelError):
    """The run was cancelled."""

    code = "cancelled"


class TimedOut(SemelError, TimeoutError):
    """What was waited for did not come in time."""

    code = "timed_out"


class NotConfigured(SemelError):
    """No Semel is open in this process, or several are and none was chosen."""

    code = "not_configured"


class ForeignAwait(SemelError):
    """The body of a workflow did something that only a step may do."""

    code = "foreign_await"


class WriteOutsideEffect(SemelError):
    """A guarded client was asked to write outside of an effect; nothing was sent."""

    code = "write_outside_effect"


class ToolUndeclared(SemelError):
    """A tool says neither that it only reads nor that it is an effect."""

    code = "tool_undeclared"


_CLASSES: dict[str, type[SemelError]] = {
    kind.code: kind
    for kind in (
        NotApplied,
        Refused,
        InDoubt,
        InputChanged,
        StepFailed,
        RunFailed,
        RunPaused,
        RunCancelled,
        TimedOut,
        NotConfigured,
        ForeignAwait,
        WriteOutsideEffect,
        ToolUndeclared,
    )
}


def from_native(
    code: str, detail: str, retry_after_ms: int | None = None, raised: Raised | None = None
) -> BaseException:
    """The exception for an error of the engine: the very one that was raised, where it can be
    rebuilt."""
    rebuilt = None if raised is None else rebuild(raised)
    # A run that stands still has not ended with what stopped it.
    if rebuilt is not None and code not in ("run_paused", "cancelled"):
        return rebuilt
    retry_after = None if retry_after_ms is None else retry_after_ms / 1000
    kind = _CLASSES.get(code, SemelError)
    if raised is not None and code == "retries_exhausted":
        kind = StepFailed
    error = kind(detail, code, retry_after)
    if kind in (NotApplied, Refused):
        error.is_told = True
    error.__cause__ = rebuilt
    if raised is not None:
        error.trace = raised[2]
    return error


def describe(error: BaseException) -> Raised:
    """An exception as the journal keeps it."""
    kind = f"{type(error).__module__}:{type(error).__qualname__}"
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:  # such as one of its own `__cause__`
        trace = kind
    return _storable(kind), _rebuilding(error), _storable(trace)


_TEXT_MAX = 2_000
"""Of what an exception says so much is kept beside its trace."""


def text(error: BaseException) -> str:
    """What an exception says, for people."""
    name = type(error).__name__
    try:
        if isinstance(error, SemelError):
            return _storable(str(error.detail)[:_TEXT_MAX]) or name
        said = _storable(str(error)[:_TEXT_MAX])
    except Exception:  # whatever an exception does, its step or effect must be answered
        said = ""
    return f"{name}: {said}" if said else name


def _storable(said: str) -> str:
    """Text without halves of characters, which names of files may have and no store takes."""
    return said.encode("utf-8", "backslashreplace").decode()


def _rebuilding(error: BaseException) -> str:
    """What rebuilds an exception, or nothing when something of it would be lost."""
    state = {name: value for name, value in vars(error).items() if name != "__notes__"}
    args: Any = error.args
    try:
        if isinstance(error, OSError) and isinstance(reduced := error.__reduce__(), tuple):
            args = reduced[1]  # with the names of files, which its arguments are without
        parts = {"args": list(args), "state": state}
        kept = json.dumps(parts, allow_nan=False)
        same = json.loads(kept) == parts and all(isinstance(name, str) for name in state)
    except Exception:  # it may have code of its own, and must be answered all the same
        return ""
    return kept if same else ""


def rebuild(raised: Raised) -> BaseException | None:
    """The exception that was raised, of the same type, or nothing.

    Only types of modules that are loaded already: the journal must not decide what is imported."""
    kind, kept, trace = raised
    module, _, name = kind.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not kept or not isinstance(found, type) or not issubclass(found, Exception):
        return None
    try:
        parts = json.loads(kept)
        error = found.__new__(found, *parts["args"])
        if not isinstance(error, OSError) or error.errno is None:
            error.args = tuple(parts["args"])
        error.__dict__.update(parts["state"])
        str(error)
    except Exception:
        return None
    error.__dict__["trace"] = trace
    return error
