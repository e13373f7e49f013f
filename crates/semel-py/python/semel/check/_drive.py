"""Brings a run as far as it goes: answers what it waits for, and pushes the clock over waits."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from .. import _native
from .._app import Semel
from .._errors import TimedOut
from .._handles import RunHandle
from .._host import ask_blocking
from ._respond import Responder

ENDED = ("done", "failed", "cancelled", "expired")
LOOK_SECONDS = 0.012
"""How long nothing must move before anything is done about it."""
PATIENCE_SECONDS = 30.0
"""Longer than any healthy workflow takes here: what is not over then is stuck."""
NUDGE_MS = 250
"""How far time is pushed while this process works on the run: far below any lease."""
HURRY_MS = 5_000
"""How far while a send is under way that shall meet its deadline; still below any lease."""
LEAP_MS = 15_000
"""How far it is pushed while nobody does, and nobody says when to look again."""
LEAPS_MAX = 20


class Driver:
    """Goes with one run, and with whatever it starts."""

    def __init__(
        self,
        app: Semel,
        run: RunHandle[Any],
        respond: dict[str, Any],
        repeat: str,
        hurry: bool,
    ) -> None:
        self._app = app
        self._run = run
        self._hurry = hurry
        self._me = f"rehearsal:{os.getpid()}"
        self._responder = Responder(app, respond, repeat)
        self._leaps = 0

    @property
    def answered(self) -> list[list[str]]:
        """What was answered: the kind of the wait, and its name."""
        return self._responder.answered

    @property
    def repeated(self) -> int:
        """How many answers were given again."""
        return self._responder.repeated

    @property
    def other_answers(self) -> int:
        """Repeated answers that were not told what the first one was told."""
        return self._responder.other_answers

    def look(self) -> dict[str, Any]:
        """Everything that the ledger holds."""
        native = self._app.native
        return dict(json.loads(ask_blocking(lambda inbox, token: native.look(inbox, token))))

    def drive(self) -> str:
        """Returns how far it went: `ended`, `paused`, `in_doubt` or `stuck`."""
        until = time.monotonic() + PATIENCE_SECONDS
        before: Any = None
        while time.monotonic() < until:
            self._wait()
            seen = self.look()
            end = self._end_of(seen)
            if end:
                return end
            now = _progress(seen)
            if now != before:
                # Several runs may each have to wait for the same thing, one behind the other.
                before, self._leaps = now, 0
                continue
            end = self._help(seen)
            if end:
                return end
        return "stuck"

    def _wait(self) -> None:
        try:
            ask_blocking(self._run._native.result, LOOK_SECONDS)
        except TimedOut:
            return
        except Exception:
            # It has ended or stands still, which the next look shows.
            return

    def _end_of(self, seen: dict[str, Any]) -> str:
        run = next(run for run in seen["runs"] if run["id"] == self._run.id)
        if run["state"] in ENDED:
            return "ended"
        return "paused" if run["state"] == "paused" else ""

    def _help(self, seen: dict[str, Any]) -> str:
        """Nothing moves: answers, or pushes the clock, or says why neither helps."""
        if self._responder.answer(seen):
            return ""
        if any(self._is_sending(effect) for effect in seen["effects"]):
            if self._hurry:
                self._push(HURRY_MS)
            return ""
        runs = [run for run in seen["runs"] if run["state"] not in ENDED]
        if any(run.get("held", {}).get("worker") == self._me for run in runs):
            self._push(NUDGE_MS)
            return ""
        dues = [one["due_in_ms"] for one in [*runs, *seen["effects"]]]
        due = min((ms for ms in dues if ms is not None), default=None)
        if due:
            self._push(due + 1)
            return ""
        is_doubtful = any(effect["state"] == "in_doubt" for effect in seen["effects"])
        if due is None and is_doubtful:
            return "in_doubt"
        self._leaps += 1
        self._push(LEAP_MS)
        return "" if self._leaps <= LEAPS_MAX else "in_doubt" if is_doubtful else "stuck"

    def _is_sending(self, effect: dict[str, Any]) -> bool:
        attempts: list[dict[str, Any]] = effect["attempts"]
        return any(one["outcome"] == "open" and one["worker"] == self._me for one in attempts)

    def _push(self, ms: int) -> None:
        _native.rehearsal_push_ms(ms)


def _progress(seen: dict[str, Any]) -> Any:
    """Changes whenever anything does."""
    runs = [(run["id"], run["version"], len(run["entries"])) for run in seen["runs"]]
    return runs, [(one["id"], one["version"]) for one in seen["effects"]]
