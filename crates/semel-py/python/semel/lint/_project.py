"""The files that are looked at, and those they import: read, never run."""

from __future__ import annotations

import ast
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

from ._values import Scope, words

#: A program that imports more of its own files than this is not followed further.
_MOST_MODULES = 400
_MUTATORS = words(
    """
    append add update setdefault pop popitem extend insert clear remove discard appendleft
    """
)
_CONTAINERS = frozenset(
    ["dict", "list", "set", "defaultdict", "Counter", "OrderedDict", "deque", "count"]
)


@dataclass(eq=False)
class Module:
    """One file."""

    path: Path
    shown: str
    """Its name as it was asked for."""
    tree: ast.Module
    lines: list[str]
    scope: Scope = field(default_factory=Scope)
    state: str = "new"
    """`new`, `running` or `done`: imports may go in circles."""
    memory: frozenset[str] = frozenset()
    """Names of the module that its functions change."""
    imports: frozenset[tuple[str, int]] = frozenset()
    """The modules that it names, and from how far up."""

    @property
    def uses_semel(self) -> bool:
        """Whether it imports the package."""
        return any(level == 0 and name.split(".")[0] == "semel" for name, level in self.imports)


def imported_by(node: ast.AST) -> list[tuple[str, int]]:
    """What an import names, each as a module that it may be."""
    if isinstance(node, ast.Import):
        return [(alias.name, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        inner = [f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*"]
        return [(name, node.level) for name in ([base] if base else []) + inner]
    return []


class NotPython(Exception):
    """A file that cannot be read as Python."""

    def __init__(self, detail: str, line: int, column: int) -> None:
        super().__init__(detail)
        self.line, self.column = line, column


class Project:
    """All modules that were read."""

    def __init__(self) -> None:
        self._modules: dict[Path, Module | None] = {}
        self._imports: dict[tuple[Path, str, int], Module | None] = {}

    def read(self, path: Path, shown: str | None = None) -> Module:
        """Reads a file that was asked for."""
        found = self._modules.get(path.resolve())
        if found is not None:
            found.shown = shown or found.shown
            return found
        module = parse(path, shown or str(path))
        self._modules[path.resolve()] = module
        return module

    def imported(self, importer: Module, name: str, level: int = 0) -> Module | None:
        """The module of the project that an import names, if it is one of its own."""
        if level == 0 and name.split(".")[0] in ("semel", "__future__"):
            return None
        asked = (importer.path.parent, name, level)
        if asked not in self._imports:
            self._imports[asked] = self._find(importer, name, level)
        return self._imports[asked]

    def _find(self, importer: Module, name: str, level: int) -> Module | None:
        for folder in _folders(importer.path, level):
            base = folder.joinpath(*name.split(".")) if name else folder
            for path in (base.with_suffix(".py"), base / "__init__.py"):
                if name or path.name == "__init__.py":
                    module = self._try(path, importer)
                    if module is not None:
                        return module
        return None

    def _try(self, path: Path, importer: Module) -> Module | None:
        try:
            if not path.is_file():
                return None
            path = path.resolve()
            if path not in self._modules:
                if len(self._modules) >= _MOST_MODULES:
                    return None
                self._modules[path] = None
                self._modules[path] = parse(path, _shown(path, importer))
            return self._modules[path]
        except (OSError, NotPython):
            return None


def _shown(path: Path, importer: Module) -> str:
    """A path beside one that was asked for, written the same way."""
    folder = importer.path.resolve().parent
    try:
        return str(Path(importer.shown).parent / path.relative_to(folder))
    except ValueError:
        return path.name


def _folders(path: Path, level: int) -> list[Path]:
    """Where an import of this file looks for modules of its own project."""
    folder = path.resolve().parent
    if level:
        for _ in range(level - 1):
            folder = folder.parent
        return [folder]
    folders = [folder]
    # A file of a package imports from where the package lies.
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
        folders.append(folder)
    return folders


def parse(path: Path, shown: str) -> Module:
    """Reads one file."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
    except (SyntaxError, UnicodeDecodeError) as error:
        raise NotPython(f"this is no Python: {error}", 1, 1) from error
    return parse_text(text, path, shown)


def parse_text(text: str, path: Path, shown: str) -> Module:
    """Reads a file that is in memory."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        detail = f"this is no Python: {error.msg}"
        raise NotPython(detail, error.lineno or 1, error.offset or 1) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPython(f"this is no Python: {error}", 1, 1) from error
    module = Module(path, shown, tree, text.splitlines())
    module.memory = _memory(module.tree)
    found = (one for node in ast.walk(tree) for one in imported_by(node))
    module.imports = frozenset(found)
    return module


def _memory(tree: ast.Module) -> frozenset[str]:
    """The names of a module that its functions change: each process has its own."""
    kept = {name for node in tree.body for name in _kept_names(node)}
    changed: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            changed |= _changed(node, kept)
    return frozenset(changed)


def _kept_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return []
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else value.func
        if isinstance(name, ast.Name):
            name = name.id
        if name not in _CONTAINERS:
            return []
    elif not isinstance(value, (ast.Dict, ast.List, ast.Set, ast.Constant, ast.DictComp)):
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _changed(function: ast.AST, kept: set[str]) -> set[str]:
    """Which of these names a function changes."""
    nodes = list(ast.walk(function))
    says_global = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    changed: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            changed |= {node.id} & says_global
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            changed |= {_name(node.value)} & kept
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _MUTATORS:
                changed |= {_name(node.func.value)} & kept
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            # `Class.count += 1`
            holder = _name(node.target.value)
            changed |= {f"{holder}.{node.target.attr}"} if holder[:1].isupper() else set()
        elif isinstance(node, ast.Call) and _name(node.func) == "next" and node.args:
            changed |= {_name(node.args[0])} & kept
    return changed


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
