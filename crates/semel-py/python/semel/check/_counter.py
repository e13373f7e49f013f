"""Counting at destinations of the user's own: a function that says how many objects there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._commands import load
from .._errors import SemelError
from ._stage import Counting
from ._target import Missing


def load_counter(text: str) -> Counting:
    """Loads `file.py:function`. The file is loaded before the workflow is: it may start
    destinations, and put their addresses into `os.environ`."""
    file, _, name = text.partition(":")
    if not Path(file).is_file():
        raise Missing(f"there is no file {file}")
    function: Any = getattr(load(Path(file)), name or "count", None)
    if not callable(function):
        raise Missing(f"{file} has no function {name or 'count'}")

    return Counted(text, function)


class Counted:
    """A function of the user's, whose answers are looked at."""

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self._function = function
        if callable(getattr(function, "reset", None)):
            self.reset = function.reset

    def __call__(self) -> Mapping[str, int]:
        counted: Mapping[Any, Any] | None = self._function()
        if not isinstance(counted, Mapping):
            raise SemelError(f"{self._name} returns no counts by name", code="input_invalid")
        return {str(one): int(many) for one, many in counted.items()}
