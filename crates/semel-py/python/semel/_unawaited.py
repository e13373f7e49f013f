"""Commands that the body of a workflow made and never awaited: nothing is done for them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from typing import Any


class BodyTask(asyncio.Task[Any]):
    """A task that is hashed by its number: sets of tasks, as `asyncio.wait` returns and task groups
    hold, are in the same order in every replay. By its address they would not be.

    It knows whether anybody waits for it, looks at it or cancels it."""

    def __init__(self, coro: Any, number: int, command: str | None, **options: Any) -> None:
        self.number = number  # first: being made, it is put into a set
        self.command = command
        """The command that it is made of, where it is one."""
        self.is_awaited = False
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number

    def __await__(self) -> Any:
        self.is_awaited = True
        return super().__await__()

    __iter__ = __await__

    def add_done_callback(self, *args: Any, **kwargs: Any) -> None:
        self.is_awaited = True
        super().add_done_callback(*args, **kwargs)

    def result(self) -> Any:
        self.is_awaited = True
        return super().result()

    def exception(self) -> BaseException | None:
        self.is_awaited = True
        return super().exception()

    def cancel(self, *args: Any, **kwargs: Any) -> bool:
        self.is_awaited = True
        return super().cancel(*args, **kwargs)


class Unawaited:
    """What was made and not begun, and by which task what is open was begun."""

    def __init__(self) -> None:
        self._made: dict[str, None] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._open: dict[int, tuple[str, Any]] = {}

    def made(self, awaitable: Any, name: str) -> None:
        """A command was made; it begins when it is awaited."""
        self._made[name] = None
        self._names[awaitable] = name

    def handed(self, coro: Any) -> str | None:
        """A task is made of it, and answers for it from now on."""
        name = self._names.get(coro)
        if name is not None:
            self._made.pop(name, None)
        return name

    def began(self, name: str) -> None:
        """It was awaited."""
        self._made.pop(name, None)

    def opened(self, waiter: int, name: str, task: Any) -> None:
        """It was issued, by this task."""
        self.began(name)
        self._open[waiter] = (name, task)

    def answered(self, waiter: int) -> None:
        """It has its answer."""
        self._open.pop(waiter, None)

    def names(self, main: Any, tasks: Iterable[Any]) -> list[str]:
        """Commands that the body has left behind."""
        found = list(self._made)
        inside = {task for _, task in self._open.values() if task is not main}
        for task in sorted(tasks, key=hash):
            if task is main or task.done() or task.is_awaited:
                continue
            own = [name for name, by in self._open.values() if by is task]
            if task.command is not None and task.command not in own:
                own.append(task.command)
            if not own and inside:
                own.append(getattr(task.get_coro(), "__qualname__", task.get_name()))
            found.extend(own)
        return found
