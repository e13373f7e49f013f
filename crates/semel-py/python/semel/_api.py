"""The names that users import from `semel`, and where they live."""

from __future__ import annotations

from . import keys
from ._app import Semel
from ._async_app import AsyncSemel
from ._context import Signal, StepContext, WorkflowContext
from ._contracts import (
    Contract,
    Retry,
    at_most_once,
    conditional,
    harmless,
    native_key,
    probe,
)
from ._declare import Effect, Function, Model, Workflow, effect, function, model, workflow
from ._errors import (
    ForeignAwait,
    InDoubt,
    InputChanged,
    NotApplied,
    NotConfigured,
    Refused,
    RunCancelled,
    RunFailed,
    RunPaused,
    SemelError,
    StepFailed,
    TimedOut,
    ToolUndeclared,
    WriteOutsideEffect,
)
from ._handles import AsyncRunHandle, RunHandle
from ._intent import Intent, intent
from ._native import __version__
from ._tools import Tool, Toolbox, tool, tools
from ._transaction import transaction
from ._worker import Worker

__all__ = [
    "AsyncRunHandle",
    "AsyncSemel",
    "Contract",
    "Effect",
    "ForeignAwait",
    "Function",
    "InDoubt",
    "InputChanged",
    "Intent",
    "Model",
    "NotApplied",
    "NotConfigured",
    "Refused",
    "Retry",
    "RunCancelled",
    "RunFailed",
    "RunHandle",
    "RunPaused",
    "Semel",
    "SemelError",
    "Signal",
    "StepContext",
    "StepFailed",
    "TimedOut",
    "Tool",
    "ToolUndeclared",
    "Toolbox",
    "Worker",
    "Workflow",
    "WorkflowContext",
    "WriteOutsideEffect",
    "__version__",
    "at_most_once",
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
