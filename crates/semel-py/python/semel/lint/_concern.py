"""Which functions have to do with Semel at all, without looking into them."""

from __future__ import annotations

import ast

from ._frame import World
from ._project import Module, imported_by
from ._values import Class, Func, Package, Ref


class Concern:
    """The functions that name something of a module that uses Semel, or one another that does.

    Other code is followed where it is called, and only there: a large project would take long."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes: set[ast.AST] = set()
        self._names: set[tuple[Module, str]] = set()
        self._modules: set[Module] = set()
        left = [one for one in world.functions.values() if not one.module.uses_semel]
        mentioned = {one.node: _mentioned(one.node) for one in left}
        self._imports = {one.node: self._imported(one) for one in left}
        grows = True
        while grows:
            found = [one for one in left if self._is_concerned(one, mentioned[one.node])]
            for one in found:
                self._add(one)
            left = [one for one in left if one.node not in self._nodes]
            grows = bool(found)

    def has(self, function: Func) -> bool:
        """Whether a function is to be looked at for its own sake."""
        if function.module not in self._world.linted or isinstance(function.node, ast.Lambda):
            return False
        return function.module.uses_semel or function.node in self._nodes

    def _add(self, function: Func) -> None:
        self._nodes.add(function.node)
        self._names.add((function.module, function.name))
        self._modules.add(function.module)
        owner = self._world.owners.get(function.node)
        if owner is not None:
            self._nodes.add(owner.node)

    def _is_concerned(self, function: Func, names: frozenset[str]) -> bool:
        module = function.module
        for name in names:
            value = module.scope.names.get(name)
            if (module, name) in self._names:
                return True
            if value is not None and value.ref is not None and self._leads_there(value.ref):
                return True
        return any(self._is_ours(one) for one in self._imports[function.node])

    def _leads_there(self, ref: Ref) -> bool:
        if isinstance(ref, (Func, Class)):
            return ref.module.uses_semel or ref.node in self._nodes
        return isinstance(ref, Package) and self._is_ours(ref.module)

    def _is_ours(self, module: Module) -> bool:
        return module.uses_semel or module in self._modules

    def _imported(self, function: Func) -> list[Module]:
        """The modules that a function imports by itself."""
        asked = (one for node in ast.walk(function.node) for one in imported_by(node))
        project = self._world.project
        found = [project.imported(function.module, name, level) for name, level in asked]
        return [one for one in found if one is not None]


def _mentioned(function: ast.AST) -> frozenset[str]:
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(function)
        if isinstance(node, (ast.Name, ast.Attribute))
    )
