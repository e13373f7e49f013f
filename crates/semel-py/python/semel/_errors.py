"""What Semel says no with. Every error has a stable `code`; `docs/errors/<code>.md` tells what to
do about it."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, cast

from . import _native

Raised = tuple[str, str, str]
"""An exception as the journal keeps it: its type, what rebuilds it, and its trace."""


class SemelError(Exception):
    """Something Semel refused, or could not do."""

    code: str = "internal"
    # Of the class, too: a subclass of the user's may have an `__init__` that does not call ours.
    detail: str = ""
    retry_after: float | None = None
    """In how many seconds it may be worth asking again."""
    subject: str | None = None
    """What it is about: ACTION/KEY of the effect that was called."""
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
        about = "" if self.subject is None else f"{self.subject}: "
        return f"{about}{self.detail} ({self.code})"

    @property
    def hint(self) -> str | None:
        """What to do next, as the command line says it."""
        return _native.hint(self.code)


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


class Fail(Exception):
    """Fails the run: `raise semel.Fail("no stock")` in the body of a workflow. What the run did is
    undone where its effects say how. Any other exception pauses the run, unless the workflow lists
    it in `fails`."""


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


class Undone(SemelError):
    """The effect was done, and then taken back: by the undo of a run that failed or was cancelled.
    It is not done again under this key."""

    code = "undone"
    receipt: Any = None
    """What it gave when it was done, as plain JSON."""
    undo_receipt: Any = None
    """What its undo gave, as plain JSON."""


class ChildFailed(SemelError):
    """A run that this one started has failed or was cancelled. Its own exception is the
    `__cause__`, where it can be built again."""

    code = "child_failed"


class ConcurrencyRejected(SemelError):
    """The run was not started: another one of its concurrency key is under way."""

    code = "concurrency_rejected"


class RateLimited(SemelError):
    """The rate of the action is used up for longer than the call waits; nothing was sent.
    `retry_after` says for how long."""

    code = "rate_limited"


class ReleaseUnknown(SemelError):
    """The workflow has no release of this name."""

    code = "release_unknown"


class ScheduleInvalid(SemelError):
    """The pattern, the time zone or the catch-up of a schedule makes no sense."""

    code = "schedule_invalid"


class Held(SemelError):
    """A person decides first; nothing was sent. Call again afterwards: the key is the same."""

    code = "held"


class _Judged:
    """What a person's answer says that is no yes."""

    detail: str

    @property
    def by(self) -> str:
        """Who decided."""
        return self._said[0]

    @property
    def note(self) -> str:
        """What they said."""
        return self._said[1]

    @property
    def _said(self) -> tuple[str, str]:
        # The engine says it in words: `returned by ann: ask for less`.
        who, _, note = self.detail.partition(" by ")[2].partition(": ")
        return who, note


class ApprovalDenied(SemelError, _Judged):
    """A person said no. The answer stands for every caller of the key."""

    code = "approval_denied"


class ApprovalReturned(SemelError, _Judged):
    """A person wants it changed, and `note` says how: that is another intent, under a key of its
    own."""

    code = "approval_returned"


class ApprovalExpired(SemelError, _Judged):
    """Nobody decided in time, which is a no."""

    code = "approval_expired"


class NotHeld(SemelError):
    """There is nothing to decide: the effect waits for nobody's approval."""

    code = "not_held"


class FourEyes(SemelError):
    """Whoever asked for it may not decide on it."""

    code = "four_eyes"


_CLASSES: dict[str, type[SemelError]] = {
    kind.code: kind
    for kind in (
        Undone,
        ChildFailed,
        ConcurrencyRejected,
        RateLimited,
        ReleaseUnknown,
        ScheduleInvalid,
        Held,
        ApprovalDenied,
        ApprovalReturned,
        ApprovalExpired,
        NotHeld,
        FourEyes,
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


Receipts = tuple[str, str]
"""The receipts of what was done and of what undid it, as JSON."""


def from_native(
    code: str,
    detail: str,
    retry_after_ms: int | None = None,
    raised: Raised | None = None,
    receipts: Receipts | None = None,
) -> BaseException:
    """The exception for an error of the engine: the very one that was raised, where it can be
    rebuilt."""
    rebuilt = None if raised is None else rebuild(raised)
    # A run that stands still has not ended with what stopped it; and what a child raised, its
    # parent did not.
    if rebuilt is not None and code not in ("run_paused", "cancelled", "child_failed"):
        return rebuilt
    retry_after = None if retry_after_ms is None else retry_after_ms / 1000
    kind = _CLASSES.get(code, SemelError)
    if raised is not None and code == "retries_exhausted":
        kind = StepFailed
    error = kind(detail, code, retry_after)
    if kind in (NotApplied, Refused):
        error.is_told = True
    if isinstance(error, Undone) and receipts is not None:
        error.receipt, error.undo_receipt = map(json.loads, receipts)
    error.__cause__ = rebuilt
    if raised is not None:
        error.trace = raised[2]
    if sys.version_info >= (3, 11) and error.hint is not None:
        error.add_note(f"next: {error.hint}")
    return error


def each(error: BaseException) -> list[BaseException]:
    """The exception, or all those of a group."""
    inner: Any = getattr(error, "exceptions", None)
    if not isinstance(inner, tuple) or not inner:
        return [error]
    return [one for part in cast("tuple[BaseException, ...]", inner) for one in each(part)]


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
