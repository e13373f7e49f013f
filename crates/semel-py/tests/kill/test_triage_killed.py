"""Triage, killed before and after every write of its store and at every destination."""

from __future__ import annotations

from functools import partial

import pytest
from campaign import LATE_SECONDS, survive_phase_kill
from destinations import Fault
from example_catalogue import TRIAGE
from example_stage import Stage, on_stage, postgres_server
from example_story import check_done, each, finish
from example_worker import Forked, Worker

DIE_AT = "SEMEL_DEMO_DIE_AT"
# Fewer mean that the worker did not tell of all: run, step, two effects and the end, both sides.
POINTS_MIN = 18
# An answer of the model that was not recorded is paid for again.
MODEL_CALLS_MAX = 2

each_store = pytest.mark.parametrize("store", ["sqlite", "postgres"])


def batches_of(worker: Worker) -> list[list[str]]:
    """The points that a worker passed. One that commits several things at once has many names."""
    lines = [line for line in worker.words().splitlines() if line.startswith("point: ")]
    return [line.removeprefix("point: ").split(" | ") for line in lines]


def is_by_the_clock(point: str) -> bool:
    """Leases are renewed when it is time: a run that ends sooner passes no such point."""
    return point.endswith(" run running")


def all_points(store: str) -> list[str]:
    """Every point that a worker passes when nobody kills it."""
    with on_stage(TRIAGE.name, TRIAGE.destinations, store, Forked) as stage:
        worker = stage.start(*TRIAGE.items, env={DIE_AT: "nowhere"})
        assert worker.end() == 0, worker.words()
        check_done(stage, TRIAGE, worker.outcome())
        check_model(stage, most=1)
        points = list(dict.fromkeys(names[0] for names in batches_of(worker) if names[0]))
        assert len(points) >= POINTS_MIN, points
        return points


def check_model(stage: Stage, most: int) -> None:
    """How often the model was paid."""
    assert 1 <= len(stage["model"].book.lines("applied")) <= most


def survive(store: str, point: str) -> str:
    """Kills a worker at one point; the next ones finish."""
    with on_stage(TRIAGE.name, TRIAGE.destinations, store, Forked) as stage:
        told = f"triage on {store}, killed {point}"
        try:
            worker = stage.start(*TRIAGE.items, env={DIE_AT: point})
            if worker.end() != 0:
                assert point in batches_of(worker)[-1]
            else:
                assert is_by_the_clock(point), f"the point was not reached: {worker.words()}"
            doubts = finish(stage, TRIAGE)
            check_model(stage, MODEL_CALLS_MAX)
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from error
        return f"{told}: {stage.arrivals()} requests, {doubts} doubts"


@each_store
def test_triage_killed_at_every_write_is_one_ticket_and_one_mail(store: str) -> None:
    if store == "postgres":
        postgres_server()
    for line in each(all_points(store), partial(survive, store)):
        print(line)


WRITES = {"model": "POST /classify", "crm": "POST /tickets", "smtp": "DATA"}


@each_store
def test_triage_killed_at_every_destination_is_one_ticket_and_one_mail(store: str) -> None:
    if store == "postgres":
        postgres_server()
    kills = [
        Fault("kill", "before"),
        Fault("kill", "after"),
        Fault("land_late", "before", seconds=LATE_SECONDS),
    ]
    stories = [(target, kill) for target in WRITES for kill in kills]

    def play(story: tuple[str, Fault]) -> str:
        target, kill = story
        return survive_phase_kill(TRIAGE, store, kill, target)

    for line in each(stories, play):
        print(line)
