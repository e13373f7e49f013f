"""What the decorators of Semel declare, as the source says it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ._values import Extern, Partial, Unknown, Value

Kind = Literal["effect", "transaction", "function", "model", "workflow", "read"]

_DECORATORS: dict[str, Kind] = {
    "semel.effect": "effect",
    "semel.transaction": "transaction",
    "semel.function": "function",
    "semel.model": "model",
    "semel.workflow": "workflow",
}


@dataclass(frozen=True, eq=False)
class Option:
    """One word of a decorator."""

    value: Value
    node: ast.expr


@dataclass(frozen=True, eq=False)
class Declared:
    """A decorated function."""

    kind: Kind
    action: str
    options: Mapping[str, Option]
    node: ast.expr
    """The decorator."""
    is_tool: bool = False

    @property
    def sends(self) -> bool:
        """Whether it is an effect in the wide sense, with a key and a receipt."""
        return self.kind in ("effect", "transaction")

    def literal(self, name: str) -> object:
        """The literal value of an option, or None."""
        option = self.options.get(name)
        if option is None or isinstance(option.value.const, Unknown):
            return None
        return option.value.const


def is_decorator(value: Value) -> Kind | None:
    """Which decorator a value is."""
    ref = value.ref
    while isinstance(ref, Partial):
        ref = ref.fn.ref
    return _DECORATORS.get(ref.path) if isinstance(ref, Extern) else None


def partial_options(value: Value, node: ast.expr) -> dict[str, Option]:
    """The words that `functools.partial` has put before those of a decorator."""
    found: dict[str, Option] = {}
    ref = value.ref
    while isinstance(ref, Partial):
        for name, given in ref.kwargs.items():
            found.setdefault(name, Option(given, node))
        ref = ref.fn.ref
    return found


def contract_of(declared: Declared) -> str | None:
    """The contract by name; None if none is declared, an empty text if it is not known which."""
    option = declared.options.get("contract")
    if option is None:
        return None
    ref = option.value.ref
    if isinstance(ref, Extern) and ref.path.startswith("semel."):
        return ref.path.removeprefix("semel.").removesuffix("()")
    return None if option.value.const is None else ""
