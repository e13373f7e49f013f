"""The names that users import from `semel`, and where they live."""

from __future__ import annotations

from . import keys
from ._app import Semel
from ._approval import Approval, ApprovalRule, approval
from ._async_app import AsyncSemel
from ._context import StepContext, WorkflowContext
from ._contracts import (
    Contract,
    Retry,
    at_most_once,
    conditional,
    harmless,
    native_key,
    probe,
)
from ._declare import Function, Model, function, model
from ._effect import Effect, effect
from ._entity import Entity
from ._errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalReturned,
    ChildFailed,
    ConcurrencyRejected,
    Fail,
    ForeignAwait,
    FourEyes,
    Held,
    InDoubt,
    InputChanged,
    NotApplied,
    NotConfigured,
    NotHeld,
    RateLimited,
    Refused,
    ReleaseUnknown,
    RunCancelled,
    RunFailed,
    RunPaused,
    ScheduleInvalid,
    SemelError,
    StepFailed,
    TimedOut,
    ToolUndeclared,
    Undone,
    WriteOutsideEffect,
)
from ._handles import AsyncRunHandle, RunHandle
from ._intent import Intent, intent
from ._native import __version__
from ._people import AsyncQuestion, Decision, Question
from ._proof import Proof
from ._releases import Release
from ._schedules import Schedule
from ._tools import Tool, Toolbox, tool, tools
from ._transaction import transaction
from ._waits import Callback, Signal
from ._worker import Worker
from ._workflow import Concurrency, Workflow, concurrency, workflow

__all__ = [
    "Approval",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalReturned",
    "ApprovalRule",
    "AsyncQuestion",
    "AsyncRunHandle",
    "AsyncSemel",
    "Callback",
    "ChildFailed",
    "Concurrency",
    "ConcurrencyRejected",
    "Contract",
    "Decision",
    "Effect",
    "Entity",
    "Fail",
    "ForeignAwait",
    "FourEyes",
    "Function",
    "Held",
    "InDoubt",
    "InputChanged",
    "Intent",
    "Model",
    "NotApplied",
    "NotConfigured",
    "NotHeld",
    "Proof",
    "Question",
    "RateLimited",
    "Refused",
    "Release",
    "ReleaseUnknown",
    "Retry",
    "RunCancelled",
    "RunFailed",
    "RunHandle",
    "RunPaused",
    "Schedule",
    "ScheduleInvalid",
    "Semel",
    "SemelError",
    "Signal",
    "StepContext",
    "StepFailed",
    "TimedOut",
    "Tool",
    "ToolUndeclared",
    "Toolbox",
    "Undone",
    "Worker",
    "Workflow",
    "WorkflowContext",
    "WriteOutsideEffect",
    "__version__",
    "approval",
    "at_most_once",
    "concurrency",
    "conditional",
    "effect",
    "function",
    "harmless",
    "intent",
    "keys",
    "model",
    "native_key",
    "probe",
    "tool",
    "tools",
    "transaction",
    "workflow",
]
