"""What names an import brings."""

from __future__ import annotations

import ast

from ._frame import Frame, World
from ._project import Module
from ._values import NOTHING, Extern, Package, Value


def bind_import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    """Gives the names of an import their values."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            _bind_module(frame, alias)
        return
    if node.names[0].name == "*":
        _bind_all(frame, node)
        return
    for alias in node.names:
        value = imported_name(frame, node, alias.name)
        frame.scope.names[alias.asname or alias.name] = value


def _bind_module(frame: Frame, alias: ast.alias) -> None:
    module = frame.world.project.imported(frame.module, alias.name)
    if alias.asname is not None:
        value = Value(ref=Extern(alias.name)) if module is None else Value(ref=Package(module))
        frame.scope.names[alias.asname] = value
        return
    top = alias.name.split(".")[0]
    whole = frame.world.project.imported(frame.module, top)
    value = Value(ref=Extern(top)) if whole is None else Value(ref=Package(whole))
    frame.scope.names[top] = value


def _bind_all(frame: Frame, node: ast.ImportFrom) -> None:
    module = frame.world.project.imported(frame.module, node.module or "", node.level)
    if module is not None:
        ready(frame.world, module)
        shown = {name for name in module.scope.names if not name.startswith("_")}
        frame.scope.names.update({name: module.scope.names[name] for name in shown})
    elif node.module == "semel":
        from .._api import __all__ as names

        frame.scope.names.update({name: Value(ref=Extern(f"semel.{name}")) for name in names})


def imported_name(frame: Frame, node: ast.ImportFrom, name: str) -> Value:
    """The value of one name that is imported from a module."""
    project = frame.world.project
    dotted = node.module or ""
    inner = project.imported(frame.module, f"{dotted}.{name}" if dotted else name, node.level)
    module = project.imported(frame.module, dotted, node.level)
    if module is not None:
        ready(frame.world, module)
        found = module.scope.names.get(name)
        if found is not None:
            return found
    if inner is not None:
        return Value(ref=Package(inner))
    if module is not None or node.level:
        return NOTHING
    return Value(ref=Extern(_public(f"{dotted}.{name}")))


def _public(path: str) -> str:
    """The name under which a thing is known here."""
    for private in ("semel._api.", "semel._contracts.", "semel._effect."):
        path = path.replace(private, "semel.")
    return path


def ready(world: World, module: Module) -> None:
    """Looks at a module's own statements, once."""
    if module.state != "new":
        return
    module.state = "running"
    from ._statements import run

    frame = Frame(world, module, module.scope, "module")
    world.begin(is_declared=True)
    run(frame, module.tree.body)
    # Branches make new dictionaries; what functions see is the last one.
    module.scope.names = frame.scope.names
    module.state = "done"
