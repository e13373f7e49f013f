"""The whole way: files in, findings out."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import _expressions as _expressions  # registers what evaluates expressions
from ._allow import without_allowed
from ._await_rules import check_awaits
from ._concern import Concern
from ._declaration_rules import check_declaration
from ._frame import Finding, Frame, World
from ._imports import ready
from ._project import Module, NotPython, Project, parse_text
from ._roots import look_at
from ._rules import RULES
from ._values import Func, Scope
from ._write_rules import check_writes

_PASSED_OVER = frozenset(["__pycache__", "node_modules", "site-packages", "build", "dist"])


@dataclass(frozen=True)
class Checked:
    """What was found, and in how many files."""

    findings: list[Finding]
    files: int


def python_files(path: Path) -> list[Path]:
    """The Python files below a folder, or the file itself."""
    if not path.is_dir():
        return [path]
    return [one for one in sorted(path.rglob("*.py")) if _is_own(path, one.relative_to(path))]


def _is_own(folder: Path, file: Path) -> bool:
    """Whether a file is of the project, and not of a package that was installed into it."""
    for part in file.parts[:-1]:
        folder = folder / part
        if part in _PASSED_OVER or part.startswith(".") or (folder / "pyvenv.cfg").is_file():
            return False
    return True


def check_files(paths: Iterable[str | Path]) -> Checked:
    """Looks at files and folders."""
    files = [file for path in paths for file in python_files(Path(path))]
    findings: list[Finding] = []
    world = World(Project())
    for file in dict.fromkeys(files):
        try:
            world.linted.add(world.project.read(file, str(file)))
        except NotPython as error:
            findings.append(_not_python(str(file), error))
    findings += _check(world)
    order = sorted(findings, key=lambda one: (one.file, one.line, one.column, one.code))
    return Checked(order, len(dict.fromkeys(files)))


def check_text(text: str, name: str = "app.py") -> list[Finding]:
    """Looks at code that is in no file."""
    try:
        module = parse_text(text, Path(name), name)
    except NotPython as error:
        return [_not_python(name, error)]
    world = World(Project(), {module})
    return sorted(_check(world), key=lambda one: (one.line, one.column, one.code))


def _not_python(name: str, error: NotPython) -> Finding:
    better = RULES["SML090"].better
    return Finding("SML090", name, error.line, error.column, str(error), better)


def _check(world: World) -> list[Finding]:
    modules = sorted(world.linted, key=lambda one: one.shown)
    _ready_all(world, modules)
    done: set[ast.AST] = set()
    concern = Concern(world)
    later: list[Func] = []
    while todo := [one for node, one in list(world.functions.items()) if node not in done]:
        for function in todo:
            done.add(function.node)
            if concern.has(function):
                later.append(function)
                _declaration(world, function)
                _walk(world, function)
    # Keys first: what a key is blamed for is not said a second time.
    for function in later:
        _judge(world, function)
    found: list[Finding] = []
    for module in modules:
        own = [one for one in world.findings.values() if one.file == module.shown]
        found += without_allowed(module, own)
    return found


def _ready_all(world: World, modules: list[Module]) -> None:
    """Looks at the statements of all modules, and of those they import."""
    seen: set[Module] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        ready(world, module)
        found = (world.project.imported(module, name, level) for name, level in module.imports)
        todo += [one for one in found if one is not None]


def _declaration(world: World, function: Func) -> None:
    if function.declared is not None:
        frame = Frame(world, function.module, Scope({}, function.scope), "quiet")
        check_declaration(frame, function)


def _walk(world: World, function: Func) -> None:
    """Meets everything that a function calls, and the functions inside it."""
    world.begin(is_declared=function.declared is not None)
    world.roots[function.node] = look_at(world, function)


def _judge(world: World, function: Func) -> None:
    root = world.roots.get(function.node)
    if root is not None:
        check_writes(world, root)
    check_awaits(world, function)


__all__ = ["Checked", "Module", "check_files", "check_text", "python_files"]
