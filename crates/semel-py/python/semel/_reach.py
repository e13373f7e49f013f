"""What the code of a function names, followed through the helpers of its application."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from ._declare import Declared

_FUNCTIONS_MAX = 500
"""An application whose one effect reaches more is looked at in part."""


class Reach:
    """All that a function names, directly or by what it calls in the files of the application."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.names: set[str] = set()
        """Every name and attribute in the code."""
        self.values: list[Any] = []
        """What those names stand for, where that is known before the code runs."""
        self._folder = folder
        self._seen: set[int] = set()
        self._waiting: list[Any] = [function]
        while self._waiting and len(self._seen) < _FUNCTIONS_MAX:
            self._look(self._waiting.pop())

    def _look(self, function: Any) -> None:
        plain: Any = inspect.unwrap(function)
        code = getattr(plain, "__code__", None)
        if not isinstance(code, CodeType) or id(code) in self._seen:
            return
        self._seen.add(id(code))
        names = _names(code)
        self.names |= names
        for value in _values(plain, names):
            self.values.append(value)
            self._waiting.extend(self._followed(value, names))

    def _followed(self, value: Any, names: set[str]) -> Iterator[Any]:
        """The functions behind a value that may run when it is used."""
        if isinstance(value, (FunctionType, MethodType)):
            if self._is_ours(value):
                yield value
            return
        if isinstance(value, Declared):
            declared = cast(Declared[..., Any], value)
            if type(declared).__name__ == "Function":
                yield declared.function
            return
        kind = value if isinstance(value, (type, ModuleType)) else type(value)
        if not self._is_ours(kind):
            return
        for name in sorted(names & set(vars(kind))):
            found = vars(kind)[name]
            if isinstance(found, FunctionType):
                yield found
            elif isinstance(kind, ModuleType):
                self.values.append(found)

    def _is_ours(self, thing: Any) -> bool:
        """Whether it is in a file of the application, not of a library."""
        try:
            file = Path(inspect.getfile(thing)).resolve()
        except (TypeError, OSError):
            return False
        return file.is_relative_to(self._folder) and "site-packages" not in file.parts


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _values(function: Any, names: set[str]) -> Iterator[Any]:
    variables: dict[str, Any] = function.__globals__
    for name in sorted(names):
        if name in variables:
            yield variables[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it may be empty yet
            continue
