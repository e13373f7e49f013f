"""The decorators, and what they make of functions."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from . import _current, _intent
from ._contracts import Contract, Duration, Retry, again, optional_ms
from ._errors import NotApplied, Refused, SemelError
from ._native import Declaration, check_name
from ._shape import _FINGERPRINT, Shape, is_async
from ._template import KeyMaker, KeySource, Template, call_with, check_parameters, text_maker
from ._work import LookWork, SendWork
from .classify import error as classified

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F = TypeVar("F")

Exhausted = Literal["pause", "fail"]
Fingerprint = Sequence[str] | str | Callable[..., Any]
Classifier = Callable[[BaseException], "NotApplied | Refused | None"]


class Declared(Generic[P, R_co]):
    """A function with a declaration. Called, it is still the function."""

    name: str
    takes_ctx: bool | None = None
    """Whether the first parameter is not the caller's; by its name or annotation if not said."""

    def __init__(self, function: Callable[P, R_co], name: str | None) -> None:
        if not callable(function):
            raise TypeError(f"a function is decorated, not {function!r}")
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.shape = Shape(function, self.takes_ctx)
        self.instance: Any = None
        functools.update_wrapper(self, function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.instance = instance
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        if self.instance is not None:
            bound: Callable[P, R_co] = functools.partial(cast(Any, self.function), self.instance)
            return bound(*args, **kwargs)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


class Function(Declared[P, R_co]):
    """A plain step: work whose value is recorded once. Before that it may run again."""

    is_model = False

    def __init__(
        self,
        function: Callable[P, R_co],
        name: str | None = None,
        retries: int | Retry | None = None,
        exhausted: Exhausted | None = None,
        no_retry: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> None:
        super().__init__(function, name)
        _check_exhausted(exhausted)
        self.again = again(retries)
        self.exhausted = exhausted
        # One class alone will do. Looked at now, and not when something has failed.
        self.no_retry = (no_retry,) if isinstance(no_retry, type) else tuple(no_retry)
        isinstance(None, self.no_retry)


class Model(Function[P, R_co]):
    """A call of a model: a step with one recorded answer per run and request."""

    is_model = True


class Workflow(Declared[P, R_co]):
    """A workflow: an async function of a context and its input."""

    takes_ctx = True

    def __init__(
        self, function: Callable[P, R_co], name: str | None = None, exhausted: Exhausted = "pause"
    ) -> None:
        super().__init__(function, name)
        if not self.shape.is_async:
            raise TypeError(f"the workflow {self.name} is no `async def`")
        parameters = list(inspect.signature(function).parameters)
        if not parameters or (self.shape.is_method and len(parameters) == 1):
            raise TypeError(f"the workflow {self.name} takes no context as its first parameter")
        check_name(self.name)
        _check_exhausted(exhausted)
        self.exhausted = exhausted

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


class Effect(Declared[P, R_co]):
    """A call that changes or charges the outside world: once per key."""

    def __init__(
        self,
        function: Callable[P, R_co],
        action: str | None = None,
        *,
        key: KeySource,
        fingerprint: Fingerprint | None = None,
        contract: Contract | None = None,
        downstream_key: str | Callable[..., str] | None = None,
        retries: int | Retry | None = None,
        deadline: Duration | None = None,
        settle_window: Duration | None = None,
        replay_window: Duration | None = None,
        lease: Duration | None = None,
        hold: Duration | None = None,
        on_doubt: Literal["wait", "continue"] = "wait",
        classify: Classifier | None = None,
    ) -> None:
        action = action or str(getattr(function, "__name__", "effect")).replace("_", "-")
        super().__init__(function, action)
        names = self.shape.names
        self.contract = contract
        self._key = KeyMaker(key, names)
        self._fingerprint, members = _fingerprinter(fingerprint, names)
        self.has_fingerprint = members is not None
        self._classify = classify
        self._downstream_key = (
            None if downstream_key is None else text_maker(downstream_key, names, "downstream_key")
        )
        if on_doubt not in ("wait", "continue"):
            raise ValueError('on_doubt is "wait" or "continue"')
        if contract is not None and contract.look is not None:
            check_parameters(contract.look, {*names, "self"}, "look")
            if is_async(contract.look) and not self.shape.is_async:
                # A blocking caller does both in its own thread, and has no event loop.
                raise TypeError(f"the look of {action} is async, so its function must be, too")
        self.goes_on = on_doubt == "continue"
        self.declaration = Declaration(
            action,
            again=again(retries),
            can_abort=self.shape.is_async,
            goes_on=self.goes_on,
            contract=None if contract is None else contract.name,
            retention_ms=None if contract is None else contract.retention_ms,
            look_first=contract is not None and contract.look_first,
            members=members,
            lease_ms=optional_ms(lease),
            deadline_ms=optional_ms(deadline),
            settle_ms=optional_ms(settle_window),
            window_ms=optional_ms(replay_window),
            hold_ms=optional_ms(hold),
        )

    @property
    def action(self) -> str:
        """The kind of effect: the name space of its keys."""
        return self.name

    @property
    def promise(self) -> str:
        """What the contract promises, word for word."""
        return self.declaration.promise()

    def key_of(self, *args: P.args, **kwargs: P.kwargs) -> list[str]:
        """The key of a call, as the list of its parts: for `app.find` and `app.resolve`."""
        return self._key(self._values(args, kwargs))

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # What the key is made of is typed first: else `"A0…"` and the UUID that is read from it
        # would be two intents.
        return self.shape.fit(self.shape.bind(args, kwargs), self._key.names)

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[str], str | None, str]:
        """The key of a call, the key to pass on if it is declared, and the input."""
        values = self._values(args, kwargs)
        self.shape.result.check()  # now, and not when there is a receipt already
        key = self._key(values)
        downstream = None if self._downstream_key is None else self._downstream_key(values)
        print_ = None if self._fingerprint is None else self._fingerprint(values)
        return key, downstream, self.shape.dump(values, print_)

    def send_work(self, app: Any, step: Any = None) -> SendWork:
        """The call, for the engine."""
        return SendWork(self, self.instance, app, step)

    def look_work(self, app: Any, step: Any = None) -> LookWork | None:
        """The look, for the engine."""
        if self.contract is None or self.contract.look is None:
            return None
        return LookWork(self, self.contract.look, self.instance, app, step)

    def proof(self, error: BaseException) -> str:
        """What an exception of the function proves."""
        if isinstance(error, SemelError) and error.is_told:
            # What became of another effect, which it called: it may have sent its own before.
            return "unknown"
        found: BaseException | None = error
        if not isinstance(error, (NotApplied, Refused)):
            try:
                found = None if self._classify is None else self._classify(error)
                # Of an error after its write the function says itself what it means, or nobody.
                sent = _intent.current()
                if found is None and not (sent is not None and sent.has_landed):
                    found = classified(error)
            except Exception:
                found = None  # a classifier that fails proves nothing
        if isinstance(found, NotApplied):
            return "not_applied"
        return "refused" if isinstance(found, Refused) else "unknown"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        app = _current.app()
        bound = self.bind(args, kwargs)
        result: R_co = app.call_effect(self, *bound)
        return result


def _check_exhausted(exhausted: str | None) -> None:
    if exhausted not in (None, "pause", "fail"):
        raise ValueError('exhausted is "pause" or "fail"')


def _fingerprinter(
    source: Fingerprint | None, names: list[str]
) -> tuple[Callable[[dict[str, Any]], Any] | None, list[str] | None]:
    """What makes the fingerprint of a call, and the members of the input that count."""
    if source is None:
        return None, None
    if callable(source):
        function = source
        check_parameters(function, set(names), "fingerprint")
        return (lambda values: call_with(function, values)), [_FINGERPRINT]
    if isinstance(source, str) and "{" in source:
        # Not as one text: in that, two calls of different values could look the same.
        return Template(source, names, "fingerprint").parts, [_FINGERPRINT]
    members = [source] if isinstance(source, str) else list(source)
    for name in members:
        if name not in names:
            known = ", ".join(names) or "none"
            detail = f"fingerprint: there is no parameter `{name}`; there are: {known}"
            raise SemelError(detail, code="input_invalid")
    return None, members


def _decorate(
    make: Callable[..., Any], function: Callable[..., Any] | None, options: dict[str, Any]
) -> Any:
    """A decorator that may be used with and without parentheses."""
    if function is not None:
        return make(function, **options)
    return functools.partial(make, **options)


@overload
def function(fn: Callable[P, R], /) -> Function[P, R]: ...
@overload
def function(
    *,
    name: str | None = None,
    retries: int | Retry | None = None,
    exhausted: Exhausted | None = None,
    no_retry: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def function(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a plain step, sync (it runs in a thread) or async, with or without a `ctx`.

    `retries` says how often it is tried again, or gives a whole `Retry`. When they are used up the
    run pauses for an operator, or with `exhausted="fail"` the workflow gets the exception. One of
    `no_retry` goes to the workflow at once."""
    return _decorate(Function, fn, options)


@overload
def model(fn: Callable[P, R], /) -> Model[P, R]: ...
@overload
def model(
    *,
    name: str | None = None,
    retries: int | Retry | None = None,
    exhausted: Exhausted | None = None,
    no_retry: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> Callable[[Callable[P, R]], Model[P, R]]: ...
def model(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a call of a model: a step with one recorded answer per run and request. The
    arguments are the request: model, parameters, tools, messages."""
    return _decorate(Model, fn, options)


@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *, name: str | None = None, exhausted: Exhausted = "pause"
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a workflow: `async def f(ctx: WorkflowContext, inbound: Model) -> Result`.

    With `exhausted="fail"` a step that has used up its retries raises in the workflow, instead of
    pausing the run for an operator."""
    return _decorate(Workflow, fn, options)


def effect(
    action: str | None = None,
    *,
    key: KeySource,
    fingerprint: Fingerprint | None = None,
    contract: Contract | None = None,
    downstream_key: str | Callable[..., str] | None = None,
    retries: int | Retry | None = None,
    deadline: Duration | None = None,
    settle_window: Duration | None = None,
    replay_window: Duration | None = None,
    lease: Duration | None = None,
    hold: Duration | None = None,
    on_doubt: Literal["wait", "continue"] = "wait",
    classify: Classifier | None = None,
) -> Callable[[Callable[P, R]], Effect[P, R]]:
    """Declares an effect: a call that must happen once per key.

    `key` is a template over the parameters (`"{request_id}"`), a list of them, or a function:
    business identifiers, never time, chance, attempt or a model's words. `fingerprint` names the
    parameters that count: the same key with others is refused; leave out what a model words anew
    each time.
    `contract` says what the destination offers. The function returns the receipt, or raises
    `NotApplied` or `Refused`; of anything else nobody knows what happened.

    In a workflow it is called by `ctx.step`; called directly it goes through the ledger alone."""
    if callable(action):
        raise TypeError('an effect needs a key: @effect("crm-ticket", key="{request_id}")')
    options = {
        "key": key,
        "fingerprint": fingerprint,
        "contract": contract,
        "downstream_key": downstream_key,
        "retries": retries,
        "deadline": deadline,
        "settle_window": settle_window,
        "replay_window": replay_window,
        "lease": lease,
        "hold": hold,
        "on_doubt": on_doubt,
        "classify": classify,
    }

    def decorate(function: Callable[P, R]) -> Effect[P, R]:
        return Effect(function, action, **options)  # type: ignore[arg-type]

    return decorate
