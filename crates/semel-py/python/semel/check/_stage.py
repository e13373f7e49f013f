"""A stage: destinations, a nursery, and for each case a store of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .._errors import SemelError
from ._double import Double, Request, Wanted
from ._life import Life
from ._lives import PATIENCE_SECONDS, End, Lives, Mode, Unready
from ._target import Target

T = TypeVar("T")

KEY = "check"
"""What a run is started under where its key does not matter."""
DONE = "done"
ENDS = (DONE, "failed", "cancelled", "paused", "expired")
FIRST_RELEASE, NEXT_RELEASE = "check-1", "check-2"

Counting = Callable[[], Mapping[str, int]]
"""Tells how many objects each destination has, by name. One that has a `reset` is asked to forget
everything before each case."""


@dataclass
class Setting:
    """What is checked, and among what."""

    target: Target
    input: Any
    key: list[str] = field(default_factory=lambda: [KEY])
    doubles: list[Wanted] = field(default_factory=list[Wanted])
    counter: Counting | None = None
    respond: dict[str, Any] = field(default_factory=dict[str, Any])
    mode: Mode = "fast"
    ends: str = DONE
    """How the run is meant to end where nothing goes wrong."""
    undisturbed_seconds: float = 0.0
    """How long it takes where nothing goes wrong, once that is known."""

    @property
    def is_uncounted(self) -> bool:
        """Whether nobody stands in for a destination, and nobody counts at one."""
        return not self.doubles and self.counter is None


def key_words(key: list[str]) -> list[str]:
    """A key as options of a command line."""
    return [] if key == [KEY] else [word for part in key for word in ("--key", part)]


class Stage:
    """What cases are played on, one after the other. The file is imported once, so the addresses of
    its destinations stay the same; the destinations forget everything between two cases."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._folder = Path(tempfile.mkdtemp(prefix="semel-check-", dir=_memory()))
        self._numbers = itertools.count(1)
        self._case = self._folder
        self._counted: Mapping[str, int] = {}
        self.release = FIRST_RELEASE
        self.doubles: dict[str, Double] = {}
        self.lives: Lives | None = None
        try:
            for wanted in setting.doubles:
                self.doubles[wanted.variable] = Double(wanted, self._folder)
            environment = {name: one for name, one in os.environ.items() if "SEMEL_" not in name}
            addresses = {name: one.address for name, one in self.doubles.items()}
            environment.update(addresses)
            self.lives = Lives(setting.target, setting.mode, environment, self._folder)
        except BaseException:
            self.close()
            raise

    def clear(self) -> None:
        """Makes room for the next case."""
        if self._case != self._folder:
            shutil.rmtree(self._case, ignore_errors=True)
        self._case = self._folder / f"case-{next(self._numbers)}"
        self._case.mkdir()
        self.release = FIRST_RELEASE
        for double in self.doubles.values():
            double.reset()
        counter = self.setting.counter
        if counter is not None:
            reset: Any = getattr(counter, "reset", None)
            if callable(reset):
                _ask(reset)
            self._counted = dict(_ask(counter))

    def life(self, **options: Any) -> Life:
        """A life on the store of this case."""
        setting = self.setting
        return Life(
            file=str(setting.target.file),
            name=setting.target.name,
            input=setting.input,
            key=setting.key,
            folder=str(self._case),
            number=next(self._numbers),
            respond=setting.respond,
            release=self.release,
            **options,
        )

    def bear(self, life: Life) -> int:
        """Begins a life."""
        assert self.lives is not None
        return self.lives.bear(life)

    def wait(self, pid: int, life: Life, seconds: float = PATIENCE_SECONDS) -> End:
        """Waits until it has ended, or stands still."""
        assert self.lives is not None
        return self.lives.wait(pid, life, seconds)

    def live(self, **options: Any) -> End:
        """A whole life."""
        life = self.life(**options)
        return self.wait(self.bear(life), life)

    def requests(self) -> list[Request]:
        """All requests that came to doubles in this case, in order."""
        return sorted(one for double in self.doubles.values() for one in double.requests())

    def objects(self) -> dict[str, int]:
        """What destinations have by now, of this case alone."""
        found: Counter[str] = Counter()
        for name, double in self.doubles.items():
            for route, counts in double.counts().items():
                found[f"{name} {route}"] += counts["applied"]
        if self.setting.counter is not None:
            for name, count in _ask(self.setting.counter).items():
                found[name] += count - self._counted.get(name, 0)
        return {name: count for name, count in found.items() if count}

    def model_calls(self) -> dict[str, int]:
        """How often each model was asked in this case."""
        return {
            f"{name} {route}": counts["model_calls"]
            for name, double in self.doubles.items()
            for route, counts in double.counts().items()
            if counts["model_calls"]
        }

    def close(self) -> None:
        """Ends everything, and leaves nothing behind."""
        if self.lives is not None:
            self.lives.close()
        for double in self.doubles.values():
            double.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _ask(function: Callable[[], T]) -> T:
    """Asks code of the user's, whose errors are theirs to read."""
    try:
        return function()
    except SemelError:
        raise
    except Exception as error:
        words = f"the counter failed: {type(error).__name__}: {error}"
        raise Unready(words, code="input_invalid") from error


def _memory() -> str | None:
    """A folder in memory: a check kills processes, not machines, so nothing need reach a disk."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) else None
