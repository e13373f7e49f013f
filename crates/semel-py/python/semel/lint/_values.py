"""What is known of a value without running anything: where it comes from, and what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._declared import Declared
    from ._project import Module

#: Labels that make a key unfit, each with its rule.
SINS = {
    "time": "SML001",
    "chance": "SML002",
    "attempt": "SML003",
    "worker": "SML004",
    "model": "SML005",
    "memory": "SML006",
    "unordered": "SML007",
    "approval": "SML008",
    "payload": "SML010",
}
# Beside them values carry `field` (a parameter), `answer` (what a destination said), `looked` (what
# it said to a question) and `downstream` (the key of the intent): no sins, but other rules ask.


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set of names."""
    return frozenset(text.split())


_LONGEST_TRAIL = 6
_MOST_TAINTS = 24


@dataclass(frozen=True)
class Taint:
    """Where a value has something from."""

    label: str
    source: str
    """As a person would name it: `uuid.uuid4()`."""
    file: str
    line: int
    trail: tuple[str, ...] = ()
    """The names it went through, the last first."""
    is_stable: bool = False
    """Of a run's clock or dice, which a replay repeats. Of a field: it was normalised."""

    @property
    def way(self) -> str:
        """The way it took."""
        return " <- ".join((*self.trail, self.source))

    def through(self, name: str) -> Taint:
        """The same, after it went through one more name."""
        if self.trail[:1] == (name,) or self.label in ("answer", "looked", "downstream", "field"):
            return self
        trail = (name, *self.trail)
        if len(trail) > _LONGEST_TRAIL:
            trail = (*trail[: _LONGEST_TRAIL - 1], trail[-1])
        return replace(self, trail=trail)


@dataclass(frozen=True)
class Extern:
    """Something outside of the project, by its path: `httpx.Client().post`."""

    path: str


@dataclass(frozen=True, eq=False)
class Func:
    """A function of the project, or a lambda."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Module
    scope: Scope
    declared: Declared | None = None
    owner: Value | None = None
    """The object whose method it is."""
    is_bare: bool = False
    """An effect's function, taken out of its decorator."""

    @property
    def name(self) -> str:
        """What it is called."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def places(self) -> list[ast.arg]:
        """Its parameters by place: without the object of a method, and without what Semel hands
        in."""
        names = [*self.node.args.posonlyargs, *self.node.args.args]
        if names and names[0].arg in ("self", "cls"):
            names = names[1:]
        return names[1:] if self.context_name is not None else names

    @property
    def parameters(self) -> list[ast.arg]:
        """All parameters that its caller gives."""
        return [*self.places, *self.node.args.kwonlyargs]

    @property
    def context_name(self) -> str | None:
        """The parameter that Semel hands in: a context, or a transaction."""
        names = [*self.node.args.posonlyargs, *self.node.args.args]
        if names and names[0].arg in ("self", "cls"):
            names = names[1:]
        if self.declared is None or not names:
            return None
        first, kind = names[0], self.declared.kind
        annotation = "" if first.annotation is None else ast.unparse(first.annotation)
        is_context = first.arg == "ctx" or annotation.strip("'\"").endswith("Context")
        return first.arg if is_context or kind in ("workflow", "transaction") else None


@dataclass(frozen=True, eq=False)
class Class:
    """A class of the project."""

    node: ast.ClassDef
    module: Module
    scope: Scope


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class of the project."""

    kind: Class


@dataclass(frozen=True, eq=False)
class Partial:
    """A callable with some of its arguments."""

    fn: Value
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class Package:
    """A module of the project."""

    module: Module


Ref = Extern | Func | Class | Instance | Partial | Package


class Unknown:
    """No constant."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True, eq=False)
class Value:
    """What is known of one value."""

    taints: frozenset[Taint] = frozenset()
    ref: Ref | None = None
    items: Mapping[str, Value] | None = None
    """Its members by name or place, where all are known."""
    const: Any = UNKNOWN
    shape: str = ""
    """`set`, `dict`, `list`, `bool` where that is known."""

    @property
    def everything(self) -> frozenset[Taint]:
        """Where it and all its members come from."""
        if not self.items:
            return self.taints
        return fewest(
            taint
            for part in (self.taints, *(item.everything for item in self.items.values()))
            for taint in part
        )

    def labelled(self, *labels: str) -> list[Taint]:
        """What has one of these labels, in the order of the lines."""
        found = (taint for taint in self.everything if taint.label in labels)
        return sorted(found, key=lambda taint: (taint.line, taint.source, taint.trail))

    def through(self, name: str) -> Value:
        """The same value after it was given a name."""
        if not self.taints and not self.items:
            return self
        items = self.items
        if items is not None:
            items = {key: item.through(name) for key, item in items.items()}
        taints = frozenset(taint.through(name) for taint in self.taints)
        return replace(self, taints=taints, items=items)

    def signature(self, depth: int = 3) -> Any:
        """Equal for values that are as good as equal."""
        items = None
        if self.items is not None and depth:
            items = tuple((key, item.signature(depth - 1)) for key, item in self.items.items())
        ref = self.ref.path if isinstance(self.ref, Extern) else id(self.ref)
        return (self.taints, ref, items, repr(self.const), self.shape)


NOTHING = Value()


@dataclass
class Scope:
    """Names and what they stand for, with the scope around."""

    names: dict[str, Value] = field(default_factory=dict[str, Value])
    around: Scope | None = None

    def find(self, name: str) -> Value | None:
        """The value of a name, looked for outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return None


def fewest(taints: Iterable[Taint]) -> frozenset[Taint]:
    """Of each origin the shortest way, and not too many."""
    best: dict[tuple[str, str, int, str, bool], Taint] = {}
    for taint in taints:
        key = (taint.label, taint.file, taint.line, taint.source, taint.is_stable)
        known = best.get(key)
        if known is None or (len(taint.trail), taint.trail) < (len(known.trail), known.trail):
            best[key] = taint
    if len(best) <= _MOST_TAINTS:
        return frozenset(best.values())
    # Sins first: what is cut must not be what is looked for.
    order = sorted(best.values(), key=lambda one: (one.label not in SINS, one.line, one.source))
    return frozenset(order[:_MOST_TAINTS])


def join(*values: Value) -> Value:
    """What is known of a value that may be any of these."""
    if len(values) == 1:
        return values[0]
    present = [value for value in values if value is not NOTHING]
    if len(present) == 1 and len(values) > 1:
        only = present[0]
        return replace(only, const=UNKNOWN)
    if not present:
        return NOTHING
    first = present[0]
    taints = fewest(taint for value in present for taint in value.taints)
    ref = next((value.ref for value in present if value.ref is not None), None)
    is_same = all(
        type(value.const) is type(first.const) and value.const == first.const for value in present
    )
    shape = first.shape if all(value.shape == first.shape for value in present) else ""
    items: Mapping[str, Value] | None = None
    if all(value.items is not None for value in present):
        all_items = [value.items or {} for value in present]
        names = dict.fromkeys(name for one in all_items for name in one)
        items = {name: join(*[one[name] for one in all_items if name in one]) for name in names}
    elif any(value.items for value in present):
        taints = fewest(taint for value in present for taint in value.everything)
    return Value(taints, ref, items, first.const if is_same else UNKNOWN, shape)


def mixed(*values: Value) -> Value:
    """A new value that is made of these."""
    taints = fewest(taint for value in values for taint in value.everything)
    return Value(taints) if taints else NOTHING
