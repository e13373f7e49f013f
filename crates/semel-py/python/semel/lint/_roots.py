"""Functions from which everything is looked at: each once, whoever calls it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ._calls import bind, construct
from ._frame import Args, Context, Event, Frame, World
from ._project import Module
from ._statements import run
from ._values import NOTHING, Func, Instance, Scope, Value

_CONTEXTS: dict[str, Context] = {
    "effect": "effect",
    "transaction": "effect",
    "function": "function",
    "read": "function",
    "model": "model",
    "workflow": "body",
}


@dataclass(frozen=True, eq=False)
class Root:
    """A function and what it does."""

    function: Func
    events: list[Event]
    returns: list[Value]
    falls_through: bool

    @property
    def kind(self) -> str:
        """What it is declared as; `plain` if it is not."""
        return "plain" if self.function.declared is None else self.function.declared.kind

    @property
    def action(self) -> str | None:
        """The action of an effect."""
        declared = self.function.declared
        return declared.action if declared is not None and declared.sends else None

    @property
    def is_stub(self) -> bool:
        """Whether it has no code yet."""
        node = self.function.node
        if isinstance(node, ast.Lambda):
            return False
        return all(
            isinstance(one, (ast.Pass, ast.Raise))
            or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            for one in node.body
        )


def look_at(world: World, function: Func) -> Root:
    """Looks at a function as any caller may call it."""
    kind = "" if function.declared is None else function.declared.kind
    frame = Frame(
        world,
        function.module,
        Scope({}, function.scope),
        _CONTEXTS.get(kind, "plain"),
        stack=(function.node,),
    )
    frame.scope.names = bind(frame, function, Args(), is_open=True)
    node = function.node
    assert not isinstance(node, ast.Lambda)
    _bind_self(frame, function)
    ends = run(frame, node.body)
    return Root(function, frame.events, frame.returns, not ends)


def _bind_self(frame: Frame, function: Func) -> None:
    owner = frame.world.owners.get(function.node)
    names = [*function.node.args.posonlyargs, *function.node.args.args]
    if owner is None or not names or names[0].arg not in ("self", "cls"):
        return
    if names[0].arg == "cls":
        frame.scope.names["cls"] = Value(ref=owner)
    elif function.name == "__init__":
        frame.scope.names["self"] = Value(ref=Instance(owner), items={})
    else:
        found = construct(frame, owner, Args(rest=(NOTHING, function.node)), function.node)
        frame.events.clear()
        frame.scope.names["self"] = found


def place_of(world: World, event: Event) -> tuple[Module, ast.AST]:
    """Where to show an event: in a file that was asked for, as near to it as can be."""
    places = [*event.sites, (event.module, event.node)]
    for module, node in reversed(places):
        if module in world.linted:
            return module, node
    return event.module, event.node


def excludes(one: Event, other: Event) -> bool:
    """Whether both cannot happen in the same call."""
    arms = dict(one.path)
    return any(branch in arms and arms[branch] != arm for branch, arm in other.path)
