"""The decorators of steps, and what they make of functions."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from ._contracts import Retry, again
from ._shape import Shape

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Exhausted = Literal["pause", "fail"]


class Declared(Generic[P, R_co]):
    """A function with a declaration. Called, it is still the function."""

    name: str
    takes_ctx: bool | None = None
    """Whether the first parameter is not the caller's; by its name or annotation if not said."""

    def __init__(self, function: Callable[P, R_co], name: str | None) -> None:
        if not callable(function):
            raise TypeError(f"a function is decorated, not {function!r}")
        self.function = function
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            named = getattr(function, "__name__", "it")
            raise TypeError(f"{named} is a generator, which has no one result: return it")
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.shape = Shape(function, self.takes_ctx)
        self.instance: Any = None
        functools.update_wrapper(self, function)
        if self.shape.is_async:
            _mark_async(self, function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.instance = instance
        signature = inspect.signature(self)
        if self.shape.is_method and "__signature__" not in self.__dict__:
            parameters = list(signature.parameters.values())[1:]
            signature = signature.replace(parameters=parameters)
        bound.__dict__["__signature__"] = signature
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
        check_exhausted(exhausted)
        self.again = again(retries)
        self.exhausted = exhausted
        # One class alone will do. Looked at now, and not when something has failed.
        self.no_retry = (no_retry,) if isinstance(no_retry, type) else tuple(no_retry)
        isinstance(None, self.no_retry)


class Model(Function[P, R_co]):
    """A call of a model: a step with one recorded answer per run and request."""

    is_model = True


def _mark_async(declared: Any, function: Callable[..., Any]) -> None:
    """Lets `inspect` and `asyncio` see what calling it gives: something to await."""
    # Of asyncio before 3.14.
    declared._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)
    if mark := getattr(inspect, "markcoroutinefunction", None):
        mark(declared)
        return
    # Before 3.12 they look at the code of what looks like a function.
    while isinstance(function, functools.partial):
        function = function.func
    made: Any = function if hasattr(function, "__code__") else type(function).__call__
    declared.__name__ = getattr(declared, "__name__", declared.name)
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        setattr(declared, name, getattr(made, name, None))


def check_exhausted(exhausted: str | None) -> None:
    """Refuses what is no answer to retries that are used up."""
    if exhausted not in (None, "pause", "fail"):
        raise ValueError('exhausted is "pause" or "fail"')


def decorate(
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
    return decorate(Function, fn, options)


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
    return decorate(Model, fn, options)
