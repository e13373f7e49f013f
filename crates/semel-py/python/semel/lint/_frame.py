"""The state of looking at code: a frame for each function, events that were met, and findings."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from ._project import Module, Project
from ._rules import RULES
from ._values import NOTHING, Class, Func, Scope, Taint, Value, mixed

Context = Literal["module", "plain", "body", "step", "function", "model", "effect", "quiet"]
Happening = Literal[
    "write", "maybe", "read", "model", "effect", "find", "foreign", "source", "key", "bare"
]
Path = tuple[tuple[int, int], ...]

DEEPEST = 8
# How many calls are followed: of all plain functions, of one of them, and of one that is declared.
_MOST_CALLS, _MOST_OF_PLAIN, _MOST_OF_DECLARED = 20_000, 50, 300


@dataclass(frozen=True)
class Finding:
    """Something that a person should look at."""

    code: str
    file: str
    line: int
    column: int
    reason: str
    better: str
    action: str | None = None
    way: str | None = None
    """How an unfit value came to where it was found."""

    @property
    def name(self) -> str:
        """The name of its rule."""
        return RULES[self.code].name

    @property
    def level(self) -> str:
        """How bad it is."""
        return RULES[self.code].level


@dataclass(frozen=True, eq=False)
class Event:
    """Something that code does beside computing."""

    kind: Happening
    what: str
    node: ast.AST
    module: Module
    inputs: Value = NOTHING
    family: str = ""
    passes_key: bool = False
    path: Path = ()
    """The arms of the branches around it."""
    in_loop: bool = False
    sites: tuple[tuple[Module, ast.AST], ...] = ()
    """The calls that lead to it, the outermost first."""
    via: tuple[str, ...] = ()
    """The helpers that were called on the way."""
    context: Context = "plain"
    is_stepped: bool = False
    label: str = ""
    address: str = ""
    """Of a request: what is literal of its address, and `{}` for what is not."""


@dataclass
class World:
    """Everything that one run of the linter knows."""

    project: Project
    linted: set[Module] = field(default_factory=set[Module])
    findings: dict[tuple[str, str, int, int], Finding] = field(
        default_factory=dict[tuple[str, str, int, int], Finding]
    )
    tests: dict[int, Value] = field(default_factory=dict[int, Value])
    """What decided at each branch."""
    blamed: set[tuple[str, int, str]] = field(default_factory=set[tuple[str, int, str]])
    """Sources that a key was found to be made of."""
    known: dict[Any, tuple[Value, list[Event]]] = field(
        default_factory=dict[Any, tuple[Value, list[Event]]]
    )
    functions: dict[ast.AST, Func] = field(default_factory=dict[ast.AST, Func])
    """All functions that were met, by their definition."""
    owners: dict[ast.AST, Class] = field(default_factory=dict[ast.AST, Class])
    """The classes of methods."""
    declared_sins: dict[ast.AST, frozenset[tuple[str, str, int]]] = field(
        default_factory=dict[ast.AST, frozenset[tuple[str, str, int]]]
    )
    """What makes keys unfit whatever they are called with."""
    roots: dict[ast.AST, Any] = field(default_factory=dict[ast.AST, Any])
    """What each function was seen to do."""
    retried: dict[ast.AST, tuple[Module, ast.expr, str]] = field(
        default_factory=dict[ast.AST, tuple[Module, ast.expr, str]]
    )
    """Functions that a decorator calls again when they fail."""
    retriers: list[tuple[Module, ast.AST, str]] = field(
        default_factory=list[tuple[Module, ast.AST, str]]
    )
    """Where something is made that tries again."""
    calls: int = 0
    left: int = _MOST_OF_DECLARED
    """How many more calls of the function at hand are followed."""
    branches: itertools.count[int] = field(default_factory=itertools.count)

    def report(
        self,
        code: str,
        module: Module,
        node: ast.AST,
        reason: str,
        *,
        better: str | None = None,
        action: str | None = None,
        way: str | None = None,
    ) -> None:
        """Notes a finding, once for each place."""
        if module not in self.linted:
            return
        line = getattr(node, "lineno", 1)
        column = getattr(node, "col_offset", 0) + 1
        place = (code, module.shown, line, column)
        if place not in self.findings:
            better = better or RULES[code].better
            self.findings[place] = Finding(
                code, module.shown, line, column, reason, better, action, way
            )

    @property
    def is_tired(self) -> bool:
        """Whether enough calls of one function were followed: the others are taken as they
        look."""
        return self.left <= 0

    def begin(self, *, is_declared: bool) -> None:
        """Begins with another function."""
        plain = _MOST_OF_PLAIN if self.calls < _MOST_CALLS else 0
        self.left = _MOST_OF_DECLARED if is_declared else plain


@dataclass
class Approved:
    """Whether a person was asked before, on the way to here."""

    yes: bool = False


@dataclass
class Frame:
    """One function, or module, while it is looked at."""

    world: World
    module: Module
    scope: Scope
    context: Context
    events: list[Event] = field(default_factory=list[Event])
    returns: list[Value] = field(default_factory=list[Value])
    path: Path = ()
    loops: int = 0
    stack: tuple[ast.AST, ...] = ()
    approved: Approved = field(default_factory=Approved)
    outer: frozenset[str] = frozenset()
    """Names that are said to be global or nonlocal."""

    def emit(self, event: Event) -> None:
        """Notes what was done, with where it stands."""
        self.events.append(
            replace(
                event,
                path=(*self.path, *event.path),
                in_loop=event.in_loop or self.loops > 0,
                context=event.context if event.sites else self.context,
            )
        )

    def adopt(self, events: list[Event], node: ast.AST, name: str) -> None:
        """Takes over what a called function did."""
        fresh: dict[int, int] = {}
        for event in events:
            path: list[tuple[int, int]] = []
            for branch, arm in event.path:
                if branch not in fresh:
                    fresh[branch] = next(self.world.branches)
                    self.world.tests[fresh[branch]] = self.world.tests.get(branch, NOTHING)
                path.append((fresh[branch], arm))
            moved = replace(
                event,
                path=tuple(path),
                sites=((self.module, node), *event.sites),
                via=(name, *event.via),
            )
            self.emit(moved)

    def taint(self, label: str, source: str, node: ast.AST, *, is_stable: bool = False) -> Value:
        """A value that has its origin here."""
        if self.approved.yes and label in ("time", "chance") and self.context == "body":
            label = "approval"
        line = getattr(node, "lineno", 1)
        return Value(
            frozenset([Taint(label, source, self.module.shown, line, is_stable=is_stable)])
        )


Evaluator = Callable[[Frame, Any], Value]
E = TypeVar("E", bound=Evaluator)
_expressions: dict[type[ast.AST], Evaluator] = {}


def expression(*kinds: type[ast.AST]) -> Callable[[E], E]:
    """Says which expressions a function evaluates."""

    def register(function: E) -> E:
        for kind in kinds:
            _expressions[kind] = function
        return function

    return register


def evaluate(frame: Frame, node: ast.AST) -> Value:
    """What is known of an expression."""
    handler = _expressions.get(type(node))
    if handler is not None:
        return handler(frame, node)
    children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return mixed(*[evaluate(frame, child) for child in children])


@dataclass
class Args:
    """The arguments of a call."""

    positional: list[tuple[Value, ast.AST]] = field(default_factory=list[tuple[Value, ast.AST]])
    keyword: dict[str, tuple[Value, ast.AST]] = field(
        default_factory=dict[str, tuple[Value, ast.AST]]
    )
    rest: tuple[Value, ast.AST] | None = None
    """What `*` and `**` brought, of which nobody knows where it goes."""

    @property
    def values(self) -> list[Value]:
        """All of them."""
        found = [value for value, _ in (*self.positional, *self.keyword.values())]
        return found if self.rest is None else [*found, self.rest[0]]

    def without_first(self, count: int = 1) -> Args:
        """All but the first ones."""
        return Args(self.positional[count:], self.keyword, self.rest)

    def named(self, name: str, place: int | None = None) -> Value | None:
        """One of them by its name, or its place."""
        if name in self.keyword:
            return self.keyword[name][0]
        if place is not None and place < len(self.positional):
            return self.positional[place][0]
        return None

    @staticmethod
    def of(values: Mapping[str, Value], node: ast.AST) -> Args:
        """Arguments by name."""
        return Args([], {name: (value, node) for name, value in values.items()})
