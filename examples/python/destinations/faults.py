"""What goes wrong at a destination, and when.

A plan is a list of faults. Each names the request it is for, by number among those that match `on`,
and the phase: `before` the effect is applied, or `after`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["stall", "reset", "status", "kill", "land_late"]
Phase = Literal["before", "after"]

PLAN_VARIABLE = "DESTINATION_FAULTS"


@dataclass(frozen=True)
class Fault:
    """One fault.

    - `stall`: go on only after `seconds`
    - `reset`: cut the connection without an answer
    - `status`: answer with `status` (429 before, 500 after, ...)
    - `kill`: SIGKILL the process `pid`, then cut the connection
    - `land_late`: as `kill` (without a pid: as `reset`), and apply the request `seconds` later, as
      a proxy or a slow server may
    """

    kind: Kind
    phase: Phase = "before"
    request: int = 1
    on: str = ""
    """A pattern that must be found in the line `METHOD /path`."""
    times: int = 1
    """For how many requests in a row."""
    seconds: float = 0.0
    status: int = 500
    pid: int | None = None


class Cut(Exception):
    """The connection ends here, without an answer."""


@dataclass
class LandLate(Exception):
    """The connection ends here, and the request is applied later."""

    seconds: float


@dataclass
class AnswerWith(Exception):
    """The answer is this status, whatever was applied."""

    status: int


class FaultPlan:
    """Faults that are still to come, shared by all connections of a destination."""

    def __init__(self, faults: list[Fault] | None = None) -> None:
        self._faults = list(faults or [])
        self._met = [0] * len(self._faults)
        self._lock = threading.RLock()
        self._over = threading.Event()

    @staticmethod
    def from_environment() -> FaultPlan:
        """The plan in the environment, a JSON list; without one, nothing goes wrong."""
        return FaultPlan(read_faults(os.environ.get(PLAN_VARIABLE, "[]")))

    def add(self, fault: Fault) -> None:
        """Adds a fault, which counts requests from now on."""
        with self._lock:
            self._faults.append(fault)
            self._met.append(0)

    @contextlib.contextmanager
    def held(self) -> Generator[None, None, None]:
        """Lets no request pass meanwhile, so that a fault can name a process just started."""
        with self._lock:
            yield

    def clear(self) -> None:
        """From now on nothing goes wrong."""
        with self._lock:
            self._faults.clear()
            self._met.clear()

    def end_stalls(self) -> None:
        """Whoever is stalled goes on at once: the destination is closing."""
        self._over.set()

    def meet(self, request: str, phase: Phase) -> None:
        """A request reaches a phase: returns, perhaps late, or raises what is to happen."""
        for fault in self._due(request, phase):
            self._strike(fault)

    def wait(self, seconds: float) -> None:
        """Waits, but not beyond the end of the destination."""
        self._over.wait(seconds)

    def _due(self, request: str, phase: Phase) -> list[Fault]:
        due: list[Fault] = []
        with self._lock:
            for place, fault in enumerate(self._faults):
                if fault.phase != phase or not re.search(fault.on, request):
                    continue
                self._met[place] += 1
                if fault.request <= self._met[place] < fault.request + fault.times:
                    due.append(fault)
        return due

    def _strike(self, fault: Fault) -> None:
        if fault.kind == "stall":
            self.wait(fault.seconds)
        elif fault.kind == "status":
            raise AnswerWith(fault.status)
        else:
            if fault.pid is not None:
                os.kill(fault.pid, signal.SIGKILL)
            raise LandLate(fault.seconds) if fault.kind == "land_late" else Cut


def read_faults(text: str) -> list[Fault]:
    """Reads a JSON list of faults."""
    return [Fault(**fault) for fault in json.loads(text)]
