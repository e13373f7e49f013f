"""A whole check: the undisturbed run, the plan, each of its cases, the report."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from .. import _native
from ._cases import Case, play, told_by
from ._lives import Unready
from ._report import Report
from ._seen import Said, effects_of, is_strict, one_result, requests_of, run_of, waits_of
from ._stage import DONE, Setting, Stage
from ._target import Missing

BASELINES = 2
"""How often it is run undisturbed: points that do not come every time depend on who is faster."""
CASES_PER_STAGE = 12
UNCOUNTED = "no destination is counted: sends go to the real addresses, again in each case"
TRIES_MAX = 3
"""How often a case is played whose place was not reached."""

JOBS_MAX = 8

Watch = Callable[[int, int, Said], None]
"""Hears of each verdict: how many there are, of how many, and the verdict."""


def usual_jobs() -> int:
    """How many cases are played at once: twice as many as there are cores, for half of the time of
    a case is waiting."""
    return min(2 * (os.cpu_count() or 1), JOBS_MAX)


@dataclass(frozen=True)
class Budget:
    """How much may be tried; nothing: everything."""

    cases: int | None = None
    seconds: float | None = None
    pairs: bool = False

    @staticmethod
    def parse(text: str) -> Budget:
        """Reads a number of cases, such as `40`, or a time, such as `60s`."""
        if text.isdigit():
            return Budget(cases=int(text))
        return Budget(seconds=_native.duration_ms(text) / 1000)


@dataclass
class Trial:
    """One check, with all its wishes."""

    setting: Setting
    budget: Budget
    command: str
    """What plays one case again; `{case}` stands for its name."""
    jobs: int = 1
    only: str | None = None
    watch: Watch | None = None
    notes: list[str] = field(default_factory=list[str])
    """What whoever reads the report has to know."""

    def run(self) -> Report:
        """Everything."""
        began = time.monotonic()
        if self.setting.is_uncounted:
            self._note(UNCOUNTED)
        stages = [Stage(self.setting)]
        try:
            lives = stages[0].lives
            if lives is not None and lives.reason is not None:
                self._note(f"each life is a process of its own: {lives.reason}")
                self.setting.mode = "process"
            baseline, sends = undisturbed(stages[0])
            detail = baseline.pop("detail", None)
            if baseline["state"] != DONE:
                self._note(f"without any fault the run ends as {baseline['state']}: {detail}")
            text = json.dumps(baseline)
            cases, left_out = self._plan(text, baseline["is_strict"])
            while len(stages) < self._stages_for(cases):
                stages.append(Stage(self.setting))
            work = Work(self, stages, text, sends, cases, began)
            verdicts = work.do()
        finally:
            for stage in stages:
                stage.close()
        left_out += len(cases) - len(verdicts)
        name = self.setting.target.name or self.setting.target.file.stem
        ms = int((time.monotonic() - began) * 1000)
        told = _native.check_report(name, text, json.dumps(verdicts), left_out, ms)
        return Report(told, ends=(baseline["state"], detail), notes=self.notes)

    def _note(self, words: str) -> None:
        """Says it at once: whoever reads it may want to stop the check."""
        self.notes.append(words)
        sys.stderr.write(f"note: {words}\n")
        sys.stderr.flush()

    def _stages_for(self, cases: list[Said]) -> int:
        """One more costs as much as some cases; and a counter is there once."""
        if self.setting.counter is not None:
            return 1
        return min(self.jobs, 1 + len(cases) // CASES_PER_STAGE)

    def _plan(self, baseline: str, is_strict: bool) -> tuple[list[Said], int]:
        if self.only is not None:
            found = _native.check_find(baseline, self.only)
            if found is None:
                raise Missing(f"there is no case named {self.only!r}")
            return [json.loads(found)], 0
        plan = json.loads(_native.check_plan(baseline, self.budget.cases, self.budget.pairs))
        # A run that never moves by itself waits for its release, as it was told to.
        cases = [one for one in plan["cases"] if not (is_strict and one["fault"] == "new_release")]
        return cases, plan["left_out"]


class Work:
    """The cases, done by several stages at once."""

    def __init__(
        self,
        trial: Trial,
        stages: list[Stage],
        baseline: str,
        sends: list[tuple[str, int]],
        cases: list[Said],
        began: float,
    ) -> None:
        self._trial = trial
        self._stages = stages
        self._baseline = baseline
        self._sends = sends
        self._cases = cases
        self._until = None if trial.budget.seconds is None else began + trial.budget.seconds
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._verdicts: dict[int, Said] = {}
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def do(self) -> list[Said]:
        """All of them, or as many as there is time for, in the order of the plan."""
        for number in range(len(self._cases)):
            self._left.put(number)
        threads = [
            threading.Thread(target=self._go, args=(stage,), daemon=True) for stage in self._stages
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return [self._verdicts[number] for number in sorted(self._verdicts)]

    def _go(self, stage: Stage) -> None:
        try:
            while self._error is None and not self._is_late():
                try:
                    number = self._left.get_nowait()
                except queue.Empty:
                    return
                self._judge(stage, number)
        except BaseException as error:
            self._error = error

    def _is_late(self) -> bool:
        # At least one: a budget that leaves nothing would look like a check.
        is_over = self._until is not None and time.monotonic() > self._until
        return is_over and bool(self._verdicts)

    def _judge(self, stage: Stage, number: int) -> None:
        told = self._cases[number]
        case = Case(told, self._sends)
        observation = play(stage, case)
        for _ in range(TRIES_MAX - 1):
            if observation is None or not observation["is_met"]:
                observation = play(stage, case)
        if observation is None or (not observation["is_met"] and is_by_the_clock(case)):
            return  # left out: it proves nothing
        verdict = json.loads(
            _native.check_judge(
                self._baseline, json.dumps(told), json.dumps(observation), self._trial.command
            )
        )
        with self._lock:
            self._verdicts[number] = verdict
            if self._trial.watch is not None:
                self._trial.watch(len(self._verdicts), len(self._cases), verdict)


def undisturbed(stage: Stage) -> tuple[Said, list[tuple[str, int]]]:
    """The run without any fault; and for each of its requests the double, and its number there."""
    began = time.monotonic()
    runs = [_baseline(stage) for _ in range(BASELINES)]
    stage.setting.undisturbed_seconds = (time.monotonic() - began) / BASELINES
    # What is written together depends on who is faster, too: each name stands for itself.
    passed = [{which for names in _counted(run) for which, _ in names} for run, _ in runs]
    always = passed[0].intersection(*passed)
    baseline, sends = runs[-1]
    points = ([name for which, name in names if which in always] for names in _counted(baseline))
    baseline["points"] = [names for names in points if names and not is_renewal(names[0])]
    baseline["result"] = one_result([run for run, _ in runs])
    return baseline, sends


def _counted(run: Said) -> list[list[tuple[tuple[str, int], str]]]:
    """The names of all points, each with how often it came before."""
    times: Counter[str] = Counter()
    counted: list[list[tuple[tuple[str, int], str]]] = []
    for names in run["points"]:
        times.update(names)
        counted.append([((name, times[name]), name) for name in names])
    return counted


def is_renewal(point: str) -> bool:
    """Whether a process only gave a sign of life."""
    return point.endswith(" run running")


def is_by_the_clock(case: Case) -> bool:
    """Whether its place is where a run parks or is taken again, which depends on who is faster."""
    name = case.point.partition(" (")[0]
    return name.endswith((" run waiting", " run running", " taken"))


def _baseline(stage: Stage) -> tuple[Said, list[tuple[str, int]]]:
    stage.clear()
    end = stage.live()
    said = told_by(end)
    if said["ended"] in ("stuck", "in_doubt"):
        run = run_of(said)
        words = f"without any fault the run does not end: {run['state']}"
        waits = f", waits on {run['waits_on']}" if "waits_on" in run else ""
        raise Unready(f"{words}{waits}", code="input_invalid")
    run = run_of(said)
    if run["state"] != stage.setting.ends:
        _refuse(run, stage.setting.ends)
    requests = stage.requests()
    baseline: Said = {
        "points": end.points,
        "requests": requests_of(requests),
        "approvals": waits_of(said, "approval"),
        "signals": waits_of(said, "signal"),
        "callbacks": waits_of(said, "callback"),
        "effects": effects_of(said["look"]),
        "objects": stage.objects(),
        "model_calls": stage.model_calls(),
        "is_strict": is_strict(said),
        **{name: value for name, value in run.items() if name in ("state", "result", "detail")},
    }
    return baseline, [(one.double, one.number) for one in requests]


def _refuse(run: Said, ends: str) -> NoReturn:
    """A run that ends before its sends would pass every case, and show nothing."""
    detail = f": {run['detail']}" if run.get("detail") else ""
    words = f"without any fault the run ends as {run['state']} and not as {ends}{detail}"
    hint = f'if it is meant to, say --ends {run["state"]}, or ends="{run["state"]}"'
    raise Unready(f"{words}\n{hint}", code="input_invalid")
