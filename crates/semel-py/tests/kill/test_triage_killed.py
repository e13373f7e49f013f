"""Triage, killed before and after every write of its store and at every destination."""

from __future__ import annotations

from functools import partial

import pytest
from campaign import LATE_SECONDS, survive_phase_kill
from destinations import Fault
from example_catalogue import TRIAGE
from example_stage import Stage, postgres_server
from example_story import each
from points import all_points, chosen, survive

# Fewer mean that the worker did not tell of all: run, step, two effects and the end, both sides.
POINTS_MIN = 18
# An answer of the model that was not recorded is paid for again.
MODEL_CALLS_MAX = 2

each_store = pytest.mark.parametrize("store", ["sqlite", "postgres"])


def check_model(stage: Stage, was_killed: bool) -> None:
    """How often the model was paid."""
    most = MODEL_CALLS_MAX if was_killed else 1
    assert 1 <= len(stage["model"].book.lines("applied")) <= most


@each_store
def test_triage_killed_at_every_write_is_one_ticket_and_one_mail(store: str) -> None:
    if store == "postgres":
        postgres_server()
    points = chosen(all_points(TRIAGE, store, POINTS_MIN, check_model), store)
    for line in each(points, partial(survive, TRIAGE, store, check_model)):
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
