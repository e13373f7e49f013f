"""Workflows, and how many runs of one may be under way at once."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from ._declare import Declared, Exhausted, check_exhausted, decorate
from ._errors import SemelError
from ._native import Policy, check_name
from ._template import Template

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


Pin = Literal["strict"]
Mode = Literal["queue", "reject", "coalesce"]
OnError = Literal["pause", "fail"]
Fails = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True)
class Concurrency:
    """How many runs of a workflow may be under way at once. Made by `concurrency`."""

    limit: int | None = None
    key: str | None = None
    mode: Mode = "queue"


def concurrency(
    limit: int | None = None, *, key: str | None = None, mode: Mode = "queue"
) -> Concurrency:
    """How many runs of a workflow may be under way at once: `limit` of all of them, and one for
    each `key`, a template over the input such as `"{customer_id}"`.

    A run whose key is taken waits for its turn (`"queue"`), is not started
    (`"reject"`, `ConcurrencyRejected`), or its starter gets the run that is under way
    (`"coalesce"`)."""
    return Concurrency(limit, key, mode)


class Workflow(Declared[P, R_co]):
    """A workflow: an async function of a context and its input."""

    takes_ctx = True

    def __init__(
        self,
        function: Callable[P, R_co],
        name: str | None = None,
        exhausted: Exhausted = "pause",
        concurrency: int | Concurrency | None = None,
        pin: Pin | None = None,
        fails: Fails = (),
        on_error: OnError = "pause",
    ) -> None:
        super().__init__(function, name)
        if not self.shape.is_async:
            raise TypeError(f"the workflow {self.name} is no `async def`")
        parameters = list(inspect.signature(function).parameters)
        if not parameters or (self.shape.is_method and len(parameters) == 1):
            raise TypeError(f"the workflow {self.name} takes no context as its first parameter")
        check_name(self.name)
        check_exhausted(exhausted)
        self.exhausted = exhausted
        # One class alone will do. Looked at now, and not when something has failed.
        self.fails = (fails,) if isinstance(fails, type) else tuple(fails)
        isinstance(None, self.fails)
        if on_error not in ("pause", "fail"):
            raise ValueError('on_error is "pause" or "fail"')
        self.on_error = on_error
        if pin not in (None, "strict"):
            raise ValueError('pin is "strict" or left out')
        self.is_strict = pin == "strict"
        self.concurrency = Concurrency(concurrency) if isinstance(concurrency, int) else concurrency
        self.policy = _policy(concurrency, self.shape.names)

    @property
    def release(self) -> str:
        """The default name of this version of the code: a digest of its source."""
        return hashlib.sha256(self._source()).hexdigest()[:12]

    def _source(self) -> bytes:
        for where in (sys.modules.get(self.function.__module__), self.function):
            try:
                return inspect.getsource(cast(Any, where)).encode()
            except (OSError, TypeError):
                continue
        # Typed in, or from `python -c`: what it was compiled to is all there is.
        code: Any = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None:
            return b""
        plain = [one for one in code.co_consts if isinstance(one, (str, int, float, bytes))]
        return bytes(code.co_code) + repr((code.co_names, plain)).encode()

    def named(self) -> list[Workflow[..., Any]]:
        """The workflows that its code names, which it may start as children. A process that works
        on a run must know them before the run goes on: it may be waiting for just them."""
        function: Any = inspect.unwrap(self.function)
        codes = [function.__code__] if hasattr(function, "__code__") else []
        names: set[str] = set()
        for code in codes:
            names.update(code.co_names)
            codes.extend(one for one in code.co_consts if isinstance(one, CodeType))
        found: list[Any] = []
        if codes:
            found.extend(function.__globals__.get(name) for name in sorted(names))
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # it may be empty yet
                found.append(cell.cell_contents)
        if self.instance is not None:
            kind = self.instance.__class__
            own = (inspect.getattr_static(kind, name, None) for name in sorted(names))
            found.extend(one.__get__(self.instance) for one in own if isinstance(one, Workflow))
        return [one for one in found if isinstance(one, Workflow)]

    def dump_input(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The input of a run: one parameter is the value itself, several are an object."""
        values = self.shape.bind(args, kwargs)
        if len(self.shape.names) == 1:
            name = self.shape.names[0]
            return self.shape.codecs[name].dump(values[name])
        return self.shape.dump(values) if values else "null"

    def load_input(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """The input of a run, typed again."""
        names = self.shape.names
        if len(names) == 1:
            values = {names[0]: self.shape.codecs[names[0]].load(text)}
        else:
            values = self.shape.load(text) if names else {}
        return self.shape.arguments(values)


def _policy(declared: int | Concurrency | None, names: list[str]) -> Policy | None:
    if declared is None:
        return None
    if isinstance(declared, bool) or not isinstance(declared, (int, Concurrency)):
        raise TypeError("concurrency= takes a number, or what `semel.concurrency(…)` returns")
    if isinstance(declared, int):
        declared = Concurrency(declared)
    if declared.limit is not None and declared.limit < 1:
        raise SemelError("a concurrency limit is at least 1", code="input_invalid")
    if declared.limit is None and declared.key is None:
        raise SemelError("concurrency: say a limit, a key, or both", code="input_invalid")
    key = None if declared.key is None else _members(declared.key, names)
    return Policy(declared.limit, key, declared.mode)


def _members(template: str, names: list[str]) -> str:
    """The template over the input as it is stored: the value itself where there is one parameter,
    whose members may be named with it or without."""
    only = names[0] if len(names) == 1 else None
    parsed = Template(template, None if only is not None else names, "concurrency key")
    text = ""
    for literal, field in parsed.pieces:
        if "{" in literal or "}" in literal:
            raise SemelError(f"concurrency key {template!r}: no braces", code="input_invalid")
        text += literal
        if field is not None:
            first, _, rest = field.partition(".")
            text += "{" + ((rest or ".") if first == only else field) + "}"
    return text


@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    exhausted: Exhausted = "pause",
    concurrency: int | Concurrency | None = None,
    pin: Pin | None = None,
    fails: Fails = (),
    on_error: OnError = "pause",
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a workflow: `async def f(ctx: WorkflowContext, inbound: Model) -> Result`.

    An exception that leaves it pauses the run with its trace: correct the code, deploy it, and
    `semel runs retry` continues. `raise semel.Fail(…)` fails the run and undoes what it did, as do
    exceptions listed in `fails=(OutOfStock,)`, and all of them with `on_error="fail"`. So does what
    a command raised for good, such as `Refused` or `ApprovalDenied`.

    With `exhausted="fail"` a step that has used up its retries raises in the workflow, instead of
    pausing the run for an operator. `concurrency=5` lets so many runs be under way at once;
    `concurrency=concurrency(key="{customer_id}")` one for each key. With `pin="strict"` its runs
    never move to another release by themselves."""
    return decorate(Workflow, fn, options)
