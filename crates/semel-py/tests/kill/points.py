"""Points of a rehearsal: the moments before and after each write of the store."""

from __future__ import annotations

import os
from collections.abc import Callable

from example_catalogue import Example
from example_stage import Stage, on_stage
from example_story import check_done, finish
from example_worker import Forked, Worker

DIE_AT = "SEMEL_REHEARSE_DIE_AT"
# Whether a run parks, is woken or renews its lease depends on who is faster.
BY_THE_CLOCK = (" run running", " run waiting", " taken")

Check = Callable[[Stage, bool], None]
"""Looks at the end of a story beside what all examples promise; was a worker killed in it?"""


def nothing_else(stage: Stage, was_killed: bool) -> None:
    """For examples that promise nothing more."""


def batches_of(worker: Worker) -> list[list[str]]:
    """The points that a worker passed. One that commits several things at once has many names."""
    lines = [line for line in worker.words().splitlines() if line.startswith("point: ")]
    return [line.removeprefix("point: ").split(" | ") for line in lines]


def all_points(example: Example, store: str, least: int, check: Check = nothing_else) -> list[str]:
    """Every point that a worker passes when nobody kills it. Fewer than `least`: some are lost."""
    with on_stage(example.name, example.destinations, store, Forked) as stage:
        worker = stage.start(*example.items, env={DIE_AT: "nowhere"})
        assert worker.end() == 0, worker.words()
        check_done(stage, example, worker.outcome())
        check(stage, False)
        points = list(dict.fromkeys(names[0] for names in batches_of(worker) if names[0]))
        assert len(points) >= least, points
        return points


def chosen(points: list[str], store: str) -> list[str]:
    """All of them on SQLite. On Postgres, where the same code writes, every third one; with
    SEMEL_EVERY_POINT all of them, too."""
    if store == "sqlite" or os.environ.get("SEMEL_EVERY_POINT"):
        return points
    return points[::3]


def survive(example: Example, store: str, check: Check, point: str) -> str:
    """Kills a worker at one point; the next ones finish."""
    with on_stage(example.name, example.destinations, store, Forked) as stage:
        told = f"{example.name} on {store}, killed {point}"
        try:
            worker = stage.start(*example.items, env={DIE_AT: point})
            if worker.end() != 0:
                # It dies where it first passes; another task may get past a point meanwhile.
                assert any(point in names for names in batches_of(worker)), worker.words()
            else:
                assert point.endswith(BY_THE_CLOCK), f"the point was not reached: {worker.words()}"
            doubts = finish(stage, example)
            check(stage, True)
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from error
        return f"{told}: {stage.arrivals()} requests, {doubts} doubts"
