"""Carrying out one case: a fault at one place, then recovery, then a repeat of the trigger."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ._lives import End, Hangs, Unready
from ._seen import Said, effects_of, requests_of, run_of
from ._stage import NEXT_RELEASE, Stage

ARRIVAL_SECONDS = 5.0
HANG_SECONDS = 0.4
"""How long a destination hangs: the clock of the run is pushed over its deadline meanwhile."""
DUPLICATES = 20
BLOCKED_SECONDS = 10.0
"""How long a process may take that goes on where another one stands still; a slow run has more."""
BLOCKED_TIMES = 3
"""How much longer than undisturbed it may take there."""


class Case:
    """One case, as the plan tells it."""

    def __init__(self, told: Said, sends: list[tuple[str, int]]) -> None:
        self.told = told
        self.fault: str = told["fault"]
        # The run as a whole is a word, every other place has one member.
        place: Said = {} if isinstance(told["place"], str) else told["place"]
        self.point: str = place.get("point", "")
        self.wait: str = place.get("wait", "")
        number: int = place["send"]["number"] if "send" in place else 0
        self.send = sends[number - 1] if number else None
        """The double, and the number of the request there."""
        self.then: str = told.get("then") or "nowhere"


class Played(NamedTuple):
    """What the fault itself came to."""

    is_met: bool
    """Whether its place was reached."""
    said: Said | None = None
    """What the last life saw, if it lived to the end."""
    is_blocked: bool = False
    """Whether nobody could go on, which is not the workflow's doing."""
    other_answers: int = 0
    """Repeats that were answered otherwise than what they repeat."""


def play(stage: Stage, case: Case) -> Said | None:
    """Plays it. Returns the observation; nothing, if nobody could go on."""
    began = time.monotonic()
    try:
        stage.clear()
        played = _PLAYS[case.fault](stage, case)
        if played.is_blocked:
            return None
        observation = observe(stage, played.said)
        observation["is_met"] = played.is_met
        observation["other_answers"] += played.other_answers
    except Exception as error:
        # Of a life, a destination or a counter: it costs this case, and not all the others.
        words = str(error) if isinstance(error, Unready) else f"{type(error).__name__}: {error}"
        observation = {"is_met": True, "state": "unknown", "error": words}
    return observation | {"ms": int((time.monotonic() - began) * 1000)}


def observe(stage: Stage, said: Said | None) -> Said:
    """What there is to see when everybody had time to recover, and after one more trigger."""
    last = said or told_by(stage.live())
    before, objects = len(stage.requests()), stage.objects()
    repeat = told_by(stage.live())
    requests = stage.requests()
    grown = sum(stage.objects().values()) - sum(objects.values())
    return run_of(repeat) | {
        "effects": effects_of(repeat["look"]),
        "requests": requests_of(requests),
        "objects": stage.objects(),
        "model_calls": stage.model_calls(),
        "replay_requests": max(len(requests) - before, grown),
        "other_answers": int(last["result"] != repeat["result"]),
    }


def told_by(end: End) -> Said:
    """What a life tells that was to live on."""
    if end.said is None:
        words = "\n".join(line for line in end.words.splitlines() if not line.startswith("point:"))
        raise Unready(f"a process ended with {end.code}: {words[-2000:]}", code="internal")
    return end.said


def _kill(stage: Stage, case: Case) -> Played:
    end = stage.live(die_at=case.point)
    if not end.was_killed:
        told_by(end)
    if case.then != "nowhere":
        second = stage.live(die_at=case.then)
        if not second.was_killed:
            told_by(second)
    return Played(end.was_killed)


def _new_release(stage: Stage, case: Case) -> Played:
    end = stage.live(die_at=case.point)
    stage.release = NEXT_RELEASE
    return Played(end.was_killed)


def _pause(stage: Stage, case: Case) -> Played:
    """It stands still; another process finishes; then it goes on and must change nothing."""
    life = stage.life(stop_at=case.point)
    pid = stage.bear(life)
    end = stage.wait(pid, life)
    if end.code is not None:
        told_by(end)
        return Played(False)
    heir = stage.life()
    try:
        told_by(stage.wait(stage.bear(heir), heir, patience(stage)))
    except Hangs:
        # It was stopped while it held the lock of the file, and nobody can write before it goes on:
        # that is SQLite, and says nothing of the workflow.
        return Played(False, is_blocked=True)
    finally:
        os.kill(pid, signal.SIGCONT)
        stage.wait(pid, life)
    return Played(True)


def patience(stage: Stage) -> float:
    """How long whoever goes on may take: a workflow of long steps takes its time there, too."""
    return max(BLOCKED_SECONDS, BLOCKED_TIMES * stage.setting.undisturbed_seconds)


def _at_destination(kind: str, **options: int) -> Callable[[Stage, Case], Played]:
    def fail(stage: Stage, case: Case) -> Played:
        assert case.send is not None
        name, number = case.send
        stage.doubles[name].arm({"fault": kind, "request": number, **options})
        said = told_by(stage.live())
        return Played(any(one.fault for one in stage.doubles[name].requests()), said)

    return fail


def _hang(stage: Stage, case: Case) -> Played:
    assert case.send is not None
    name, number = case.send
    double = stage.doubles[name]
    double.arm({"fault": "hang", "request": number, "when": "after"})

    def release() -> None:
        until = time.monotonic() + ARRIVAL_SECONDS
        while time.monotonic() < until and len(double.requests()) < number:
            time.sleep(0.02)
        time.sleep(HANG_SECONDS)
        double.release()

    releasing = threading.Thread(target=release)
    releasing.start()
    try:
        said = told_by(stage.live(hurry=True))
    finally:
        releasing.join()
    return Played(len(double.requests()) >= number, said)


def _repeat_wait(stage: Stage, case: Case) -> Played:
    said = told_by(stage.live(repeat=case.wait))
    return Played(said["repeated"] > 0, said, other_answers=said["other_answers"])


def _repeat_trigger(stage: Stage, case: Case) -> Played:
    return Played(True, told_by(stage.live()))


def _duplicates(stage: Stage, case: Case) -> Played:
    said = told_by(stage.live(starters=DUPLICATES))
    return Played(said["starts"] == DUPLICATES, said, other_answers=said["other_answers"])


_PLAYS: dict[str, Callable[[Stage, Case], Played]] = {
    "kill": _kill,
    "cut_before": _at_destination("cut_before"),
    "cut_after": _at_destination("cut_after"),
    "error_before": _at_destination("error_before"),
    "error_after": _at_destination("error_after"),
    "refuse_after": _at_destination("error_before", status=403),
    "timeout": _hang,
    "repeat_trigger": _repeat_trigger,
    "repeat_approval": _repeat_wait,
    "repeat_callback": _repeat_wait,
    "repeat_signal": _repeat_wait,
    "duplicates": _duplicates,
    "pause_beyond_lease": _pause,
    "new_release": _new_release,
}
