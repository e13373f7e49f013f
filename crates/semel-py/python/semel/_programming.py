"""Errors of the code itself. The same code raises them again, so nothing retries them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ._wire import UNSEEN_CLIENTS, current

_KINDS = (
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)

# What writes without a socket of Python: as the only evidence, "nothing was seen" is too little.
_UNSEEN_WRITERS = UNSEEN_CLIENTS | {"_sqlite3", "django", "peewee", "sqlalchemy", "sqlite3"}


def is_programming_error(error: BaseException) -> bool:
    """Whether Python itself says that the code is wrong. A class of your own below these was
    raised on purpose. A client that cannot read an answer raises them as well: once something was
    sent, what an installed package raises is not the author's to correct."""
    if not isinstance(error, _KINDS) or type(error).__module__ != "builtins":
        return False
    wire = current()
    has_gone_out = wire is not None and not wire.is_untouched()
    return not (has_gone_out and is_of_a_library(error))


def is_of_a_library(error: BaseException) -> bool:
    """Whether an installed package raised it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return False
    folders = Path(frame.tb_frame.f_code.co_filename).parts
    return not {"site-packages", "dist-packages"}.isdisjoint(folders)


def proves_nothing_sent(function: Callable[..., Any], instance: Any) -> bool:
    """Whether all that the running attempt did was seen, and nothing went out."""
    wire = current()
    return wire is not None and wire.is_untouched() and not _reaches_unseen(function, instance)


def _reaches_unseen(function: Callable[..., Any], instance: Any) -> bool:
    from ._reach import Reach  # which imports what imports this file

    try:
        folder = Path(inspect.getfile(inspect.unwrap(function))).resolve().parent
        reach = Reach(function, folder)
        values = [*reach.values, *getattr(instance, "__dict__", {}).values()]
        packages = {_package(value) for value in values}
    except Exception:
        return True  # what cannot be read proves nothing
    return not _UNSEEN_WRITERS.isdisjoint(packages | reach.names)


def _package(value: Any) -> str:
    owner = value if isinstance(value, (ModuleType, type)) or callable(value) else type(value)
    name: object = getattr(owner, "__name__" if isinstance(owner, ModuleType) else "__module__", "")
    return name.partition(".")[0] if isinstance(name, str) else ""
