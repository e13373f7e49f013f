"""Kills workers at random times and at chosen phases, lets them recover, and counts."""

from __future__ import annotations

import os
import random
import secrets
import time
from dataclasses import dataclass, replace

from destinations import Fault
from example_catalogue import Example
from example_stage import Stage, on_stage
from example_story import check_done, check_never_twice, finish
from example_worker import Forked, Worker

KILLS = int(os.environ.get("SEMEL_KILLS", "4"))
LOOK_SECONDS = 0.001
# After the next worker has begun, and within the settle window.
LATE_SECONDS = 1.0
# Stories in a row whose workers are all faster than the kill.
MISSES_MAX = 20
# About as long as a destination takes to answer.
REQUEST_SECONDS = 0.005


def seeds() -> list[str]:
    """One seed for each kill: new ones, or the one that is to be replayed."""
    given = os.environ.get("SEMEL_SEED")
    return [given] if given else [secrets.token_hex(4) for _ in range(KILLS)]


@dataclass(frozen=True)
class Pace:
    """How an example goes when nobody kills it."""

    startup_seconds: float
    """Until its first request."""
    arrivals: int
    between_seconds: float
    """From one request to the next."""


def pace_of(example: Example, store: str) -> Pace:
    """Runs it once, undisturbed."""
    with on_stage(example.name, example.destinations, store, Forked) as stage:
        began = time.monotonic()
        worker = stage.start(*example.items)
        wait_for_arrivals(stage, worker, 1)
        first = time.monotonic()
        assert worker.end() == 0
        check_done(stage, example, worker.outcome())
        count = stage.arrivals()
        return Pace(first - began, count, (time.monotonic() - first) / count)


def wait_for_arrivals(stage: Stage, worker: Worker, count: int) -> None:
    """Until so many requests have arrived, or the worker has ended."""
    while stage.arrivals() < count and worker.process.poll() is None:
        time.sleep(LOOK_SECONDS)


def kill_at_random(stage: Stage, worker: Worker, pace: Pace, chance: random.Random) -> bool:
    """Kills a worker somewhere between its start and its end. `False`: it was faster."""
    after = stage.arrivals() + chance.randint(0, pace.arrivals)
    # Counted in requests, not in seconds: on a busy machine a run takes as long as it takes.
    if after == 0:
        time.sleep(chance.uniform(0.0, pace.startup_seconds))
    else:
        wait_for_arrivals(stage, worker, after)
        # Every other one while the request is being answered, where it hurts.
        longest = chance.choice([REQUEST_SECONDS, 1.5 * pace.between_seconds])
        time.sleep(chance.uniform(0.0, longest))
    worker.kill()
    return worker.end() != 0


def survive_random_kills(example: Example, store: str, pace: Pace, seed: str) -> str:
    """One story: killed once or twice at random times, then finished. Says how it went."""
    chance = random.Random(f"{example.name} {store} {seed}")
    told = f"{example.name} on {store}, seed {seed}"
    for _ in range(MISSES_MAX):
        try:
            came = _random_story(example, store, pace, chance)
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from error
        if came:
            return f"{told}: {came}"
    raise AssertionError(f"{told}: every worker ended before it could be killed")


def _random_story(example: Example, store: str, pace: Pace, chance: random.Random) -> str:
    """How it came, or nothing when no worker lived long enough to be killed."""
    with on_stage(example.name, example.destinations, store, Forked) as stage:
        kills = 0
        for _ in range(chance.choice([1, 1, 2])):
            kills += kill_at_random(stage, stage.start(*example.items), pace, chance)
            check_never_twice(stage, example)
        doubts = finish(stage, example)
        return f"{kills} kills, {stage.arrivals()} requests, {doubts} doubts" if kills else ""


def phase_kills(example: Example) -> list[Fault]:
    """The moments around an effect, as its destination sees them."""
    on = example.writes
    return [
        Fault("kill", "before", on=on),
        Fault("kill", "after", on=on),
        Fault("kill", "after", request=2, on=on),
        # The worker is dead, its request is not.
        Fault("land_late", "before", on=on, seconds=LATE_SECONDS),
    ]


def survive_phase_kill(
    example: Example, store: str, fault: Fault, target: str | None = None
) -> str:
    """One story: killed by a destination at one phase, then finished."""
    with on_stage(example.name, example.destinations, store, Forked) as stage:
        target = target or example.target
        told = f"{example.name} on {store}, {fault.kind} {fault.phase} {target} {fault.request}"
        faults = stage[target].faults
        with faults.held():
            worker = stage.start(*example.items)
            faults.add(replace(fault, pid=worker.pid))
        try:
            assert worker.end() != 0, "the worker was not killed"
            check_never_twice(stage, example)
            doubts = finish(stage, example)
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from error
        return f"{told}: {stage.arrivals()} requests, {doubts} doubts"
