"""Tools for agents: each says that it only reads, or is an effect. So a model that calls again
after a timeout, in other words, gets the first receipt."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from ._declare import Declared, Function
from ._effect import Effect
from ._errors import SemelError, ToolUndeclared

if TYPE_CHECKING:
    from ._context import WorkflowContext

P = ParamSpec("P")
R = TypeVar("R")

Style = Literal["openai", "anthropic"]


class Tool(Generic[P, R]):
    """A function that a model may call."""

    def __init__(self, declared: Declared[P, R], name: str | None = None) -> None:
        self.declared = declared
        self.name = name or declared.function.__name__
        self.description = inspect.getdoc(declared.function) or ""
        self.is_effect = isinstance(declared, Effect)
        if isinstance(declared, Effect) and not declared.has_fingerprint:
            detail = (
                f"the tool {self.name} does not say which of its arguments count: a model words "
                "them anew each time; declare fingerprint=[...] on its effect"
            )
            raise SemelError(detail, code="input_invalid")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.declared(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


@overload
def tool(declared: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, read: bool = False, name: str | None = None
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    declared: Callable[..., Any] | None = None, /, *, read: bool = False, name: str | None = None
) -> Any:
    """Declares a tool: above an `@effect`, or with `read=True` above a function that changes
    nothing. Anything else is refused: nobody could say what a second call does."""

    def decorate(function: Any) -> Tool[..., Any]:
        is_effect, is_function = isinstance(function, Effect), isinstance(function, Function)
        if is_function if read else is_effect:
            return Tool(function, name)
        if read and not isinstance(function, Declared):
            return Tool(Function(function), name)
        what = getattr(cast(Any, function), "__name__", repr(cast(Any, function)))
        raise ToolUndeclared(
            f"the tool {what} is no @effect and does not say read=True: one of both must be so"
        )

    return decorate if declared is None else decorate(declared)


class Toolbox:
    """The tools of one agent, with what the program binds and the model does not see."""

    def __init__(self, tools: Iterable[Tool[..., Any]], bound: Mapping[str, Any]) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for one in tools:
            if not isinstance(one, Tool):
                raise ToolUndeclared(f"{one!r} is not declared by @tool")
            if one.name in self._tools:
                raise SemelError(f"there are two tools named {one.name}", code="name_invalid")
            self._tools[one.name] = one
        self._bound = dict(bound)
        names = {name for one in self._tools.values() for name in one.declared.shape.names}
        for name in self._bound:
            if name not in names:
                raise SemelError(f"no tool has a parameter `{name}`", code="input_invalid")

    def __getitem__(self, name: str) -> Tool[..., Any]:
        found = self._tools.get(name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            raise ToolUndeclared(f"there is no tool {name!r}; there are: {known}")
        return found

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    def schemas(self, style: Style = "openai") -> list[dict[str, Any]]:
        """The tools as a model's API takes them. What is bound is not in there."""
        if style not in ("openai", "anthropic"):
            raise ValueError(f'a style is "openai" or "anthropic", not {style!r}')
        shown: list[dict[str, Any]] = []
        for one in self._tools.values():
            schema = self._schema(one)
            if style == "anthropic":
                shown.append(
                    {"name": one.name, "description": one.description, "input_schema": schema}
                )
            else:
                function = {
                    "name": one.name,
                    "description": one.description,
                    "parameters": schema,
                }
                shown.append({"type": "function", "function": function})
        return shown

    def _schema(self, one: Tool[..., Any]) -> dict[str, Any]:
        from pydantic import TypeAdapter

        shape = one.declared.shape
        asked = [parameter for parameter in shape.parameters if parameter.name not in self._bound]
        inputs = [
            (parameter.name, "validation", TypeAdapter(shape.codecs[parameter.name].annotation))
            for parameter in asked
        ]
        schemas, rest = TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
        properties = {name: schema for (name, _), schema in schemas.items()}
        required = [parameter.name for parameter in asked if _is_required(parameter)]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        if "$defs" in rest:
            schema["$defs"] = rest["$defs"]
        return schema

    def _values(self, one: Tool[..., Any], arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """The values of a call: the model's, typed, and the program's own."""
        shape = one.declared.shape
        try:
            asked: Any = arguments
            if isinstance(arguments, str):
                asked = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise SemelError(f"the arguments are no JSON: {error}", code="input_invalid") from error
        if not isinstance(asked, Mapping):
            raise SemelError("the arguments are no object", code="input_invalid")
        given = cast(Mapping[str, Any], asked)
        for name in given:
            if name in self._bound or name not in shape.names:
                detail = f"the tool {one.name} takes no `{name}` from a model"
                raise SemelError(detail, code="input_invalid")
        for parameter in shape.parameters:
            is_given = parameter.name in given or parameter.name in self._bound
            if not is_given and _is_required(parameter):
                detail = f"the tool {one.name} needs `{parameter.name}`"
                raise SemelError(detail, code="input_invalid")
        bound = {name: value for name, value in self._bound.items() if name in shape.names}
        typed = {name: _typed(one, name, value) for name, value in given.items()}
        return {**typed, **bound}

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> Any:
        """Calls a tool as a model asked for it, outside of a run."""
        one = self[name]
        if one.declared.shape.is_async:
            raise SemelError(f"the tool {name} is async: use acall", code="input_invalid")
        return one(**self._values(one, arguments))

    async def acall(self, name: str, arguments: str | Mapping[str, Any]) -> Any:
        """Calls a tool as a model asked for it, outside of a run; a sync one in a thread."""
        one = self[name]
        values = self._values(one, arguments)
        if one.declared.shape.is_async:
            return await one(**values)
        return await asyncio.to_thread(one, **values)

    def step(
        self,
        ctx: WorkflowContext,
        name: str,
        arguments: str | Mapping[str, Any],
        step_id: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Calls a tool as a model asked for it, as a step of a run."""
        one = self[name]
        return ctx.step(one.declared, step_id=step_id, **self._values(one, arguments))


def _is_required(parameter: inspect.Parameter) -> bool:
    many = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in many


def _typed(one: Tool[..., Any], name: str, value: Any) -> Any:
    """An argument of a model as the type that the tool wants."""
    try:
        return one.declared.shape.codecs[name].load(json.dumps(value))
    except SemelError as error:
        detail = f"the tool {one.name} cannot take this `{name}`: {error.detail}"
        raise SemelError(detail, code="input_invalid") from error


def tools(declared: Iterable[Tool[..., Any]], /, **bound: Any) -> Toolbox:
    """The tools of one agent. What is bound, such as the id of the case, goes to every tool that
    has a parameter of that name; the model neither sees nor sets it. Keys are made of such
    values."""
    return Toolbox(declared, bound)
