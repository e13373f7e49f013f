"""What is true of every example, whatever happened to it: one object for each intent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from example_catalogue import Example, is_doubtful
from example_stage import Stage

# Most of a story's time is waiting: for a lease, a settle window, an answer.
STORIES_AT_ONCE = 5
RESTARTS_MAX = 6

T = TypeVar("T")


def each(stories: Iterable[T], play: Callable[[T], Any]) -> list[Any]:
    """Plays all stories, several at a time. The first that fails is raised."""
    with ThreadPoolExecutor(STORIES_AT_ONCE) as pool:
        return list(pool.map(play, stories))


def finish(stage: Stage, example: Example) -> int:
    """Starts the example until its work is done, with a person at hand: returns the doubts."""
    doubts = 0
    for _ in range(RESTARTS_MAX):
        outcome = stage.finish(*example.items)
        check_never_twice(stage, example)
        if not is_doubtful(outcome):
            check_done(stage, example, outcome)
            stage.verify()
            return doubts
        settled = example.settle(stage, outcome)
        doubts += settled
        if example.name == "nurture_mail":
            # The run is over; the doubt was its result, and is settled in the ledger.
            check_let_go(stage, example, outcome)
            stage.verify()
            return doubts
        assert settled > 0, f"nobody could settle {outcome}"
    raise AssertionError(f"not done after {RESTARTS_MAX} restarts")


def check_never_twice(stage: Stage, example: Example) -> None:
    """The law: at no time is there a second object for one intent."""
    doubled = {name: count for name, count in example.objects(stage).items() if count > 1}
    assert not doubled, f"{example.name}: {doubled}"


def check_done(stage: Stage, example: Example, outcome: dict[str, list[Any]]) -> None:
    """Each intent has its one object, and each delivery got the same answer."""
    assert set(example.objects(stage)) == example.wanted(), example.name
    check_never_twice(stage, example)
    assert set(outcome) == set(example.items)
    for item, answers in outcome.items():
        told = answers if example.name != "agent_tools" else tickets_told(answers)
        assert len(told) >= 2, f"{item}: {answers}"
        assert all(answer == told[0] for answer in told), f"{item}: {answers}"


def tickets_told(answers: list[str]) -> list[str]:
    """An agent is also told that a tool timed out."""
    return [answer for answer in answers if answer != "timed out"]


def check_let_go(stage: Stage, example: Example, outcome: dict[str, list[dict[str, str]]]) -> None:
    """Only a mail that was in doubt may be missing."""
    missing = example.wanted() - set(example.objects(stage))
    doubts = sum(state == "in doubt" for two in outcome.values() for state in two[0].values())
    assert len(missing) <= doubts, f"{missing} are missing, {doubts} were in doubt"
    assert all(two[0] == two[1] for two in outcome.values()), outcome
