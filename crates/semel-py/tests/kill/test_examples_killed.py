"""Every example, killed at random times and at each phase of its destination, on both stores."""

from __future__ import annotations

from functools import partial

import pytest
from campaign import pace_of, phase_kills, seeds, survive_phase_kill, survive_random_kills
from example_catalogue import CATALOGUE, Example
from example_long_runs import LONG_RUNS
from example_stage import postgres_server
from example_story import each

ALL = [*CATALOGUE, *LONG_RUNS]

each_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
each_store = pytest.mark.parametrize("store", ["sqlite", "postgres"])


@each_store
@each_example
def test_killed_at_random_times_each_effect_is_there_once(example: Example, store: str) -> None:
    if store == "postgres":
        postgres_server()
    pace = pace_of(example, store)
    for line in each(seeds(), partial(survive_random_kills, example, store, pace)):
        print(line)


@each_store
@each_example
def test_killed_around_an_effect_it_is_there_once(example: Example, store: str) -> None:
    if store == "postgres":
        postgres_server()
    for line in each(phase_kills(example), partial(survive_phase_kill, example, store)):
        print(line)
