"""The examples of long runs, killed before and after every write of their store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from example_catalogue import Example
from example_long_runs import LONG_RUNS
from example_stage import postgres_server
from example_story import each
from points import all_points, chosen, nothing_else, survive

# Fewer points mean that the worker did not tell of all.
POINTS_MIN = {
    "saga_order": 40,
    "two_agents_one_ticket": 18,
    "long_agent": 24,
    "vendor_research": 28,
    "refund_approval": 16,
    "nightly_report": 10,
}

each_store = pytest.mark.parametrize("store", ["sqlite", "postgres"])
each_example = pytest.mark.parametrize("example", LONG_RUNS, ids=lambda example: example.name)


@each_store
@each_example
def test_killed_at_every_write_each_effect_is_there_once(example: Example, store: str) -> None:
    if store == "postgres":
        postgres_server()
    # Two agents meet; of all others one item passes every point that there is.
    few = replace(example, items=example.items[: 2 if "two" in example.name else 1])
    points = chosen(all_points(few, store, POINTS_MIN[example.name]), store)
    for line in each(points, partial(survive, few, store, nothing_else)):
        print(line)
