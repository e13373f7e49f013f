"""What a function takes: its parameters without `self` and `ctx`, and their codecs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from ._codec import Codec, codec, hints, plain
from ._errors import SemelError

_FINGERPRINT = "#fingerprint"
"""The member of an input that holds what a function or template says of it."""


class Shape:
    """The parameters and the result of one function."""

    def __init__(self, function: Callable[..., Any], takes_ctx: bool | None = None) -> None:
        self.function = function
        self.is_async = is_async(function)
        signature = _signature(function)
        parameters = list(signature.parameters.values())
        self.is_method = bool(parameters) and parameters[0].name in ("self", "cls")
        if self.is_method:
            parameters = parameters[1:]
        self.takes_ctx = _is_ctx(parameters) if takes_ctx is None else takes_ctx
        if self.takes_ctx:
            parameters = parameters[1:]
        self.parameters = parameters
        self.names = [parameter.name for parameter in parameters]
        self.signature = signature.replace(parameters=parameters)
        """As a caller sees it."""
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._is_plain = all(parameter.kind is plain for parameter in parameters)

    @functools.cached_property
    def _hints(self) -> Mapping[str, Any]:
        return hints(self.function)

    @functools.cached_property
    def codecs(self) -> dict[str, Codec]:
        """The codec of each parameter."""
        found: dict[str, Codec] = {}
        for parameter in self.parameters:
            annotation = self._hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                annotation = list[annotation]  # type: ignore[valid-type]
            elif parameter.kind is parameter.VAR_KEYWORD:
                annotation = dict[str, annotation]  # type: ignore[valid-type]
            found[parameter.name] = codec(annotation)
        return found

    @functools.cached_property
    def result(self) -> Codec:
        """The codec of what the function returns."""
        return codec(self._hints.get("return", Any))

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The values of a call, by name, defaults included."""
        if self._is_plain and not kwargs and len(args) == len(self.names):
            return dict(zip(self.names, args, strict=True))
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def fit(self, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
        """The values, those of these names as the function will get them. One that does not fit is
        left as it is, for `dump` to refuse."""
        fitting = dict(values)
        for name in names & values.keys():
            with contextlib.suppress(SemelError):
                fitting[name] = self.codecs[name].fit(values[name])
        return fitting

    def dump(self, values: dict[str, Any], fingerprint: Any = None) -> str:
        """The values of a call as a JSON object."""
        members = [f"{json.dumps(name)}:{self.codecs[name].dump(values[name])}" for name in values]
        if fingerprint is not None:
            members.append(f"{json.dumps(_FINGERPRINT)}:{codec(Any).dump(fingerprint)}")
        return "{" + ",".join(members) + "}"

    def load(self, text: str) -> dict[str, Any]:
        """The values of a call, typed again. What has a default may be missing."""
        members = plain(text)
        if not isinstance(members, dict):
            members = {self.names[0]: members} if len(self.names) == 1 else {}
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            name = parameter.name
            if name in members:
                values[name] = self.codecs[name].load(json.dumps(members[name]))
            elif parameter.default is not parameter.empty:
                values[name] = parameter.default
            elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise SemelError(f"the stored input has no `{name}`", code="input_invalid")
        return values

    def arguments(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call, as a function is called with them."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name not in values:
                continue
            value = values[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    # Not to see whether it can be called: it can, and this is what runs then.
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # a part of the interpreter that does not say, such as `max` or `dict`
        return inspect.signature(lambda *args, **kwargs: None)


def _is_ctx(parameters: list[inspect.Parameter]) -> bool:
    if not parameters:
        return False
    first = parameters[0]
    annotation = first.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if first.annotation is first.empty:
        return first.name == "ctx"
    return name.rpartition(".")[2] in ("WorkflowContext", "StepContext")
