"""Stands in for everybody whom a run waits for: people, signals, callbacks."""

from __future__ import annotations

from typing import Any, cast

from .._app import Semel
from .._errors import SemelError
from .._native import callback_signal
from .._people import Question

ACTOR = "semel-check"


class Responder:
    """Answers each wait once; the one that is to be repeated, twice."""

    def __init__(self, app: Semel, answers: dict[str, Any], repeat: str) -> None:
        self._app = app
        self._answers = answers
        self._repeat = repeat
        self._done: set[tuple[str, str]] = set()
        self.answered: list[list[str]] = []
        self.other_answers = 0
        self.repeated = 0

    def answer(self, seen: dict[str, Any]) -> bool:
        """Answers what is waited for. Says whether there was anything."""
        is_held = any(effect.get("approval", {}).get("held") for effect in seen["effects"])
        questions = self._app.approvals() if is_held else []
        for question in questions:
            self._decide(question)
        told = [self._tell(run, wait) for run in seen["runs"] for wait in run.get("waits", [])]
        return bool(questions) or any(told)

    def _decide(self, question: Question) -> None:
        said = self._answers.get(question.action, "approve")
        first = self._judge(question, said)
        self.answered.append(["approval", question.action])
        if self._repeat == question.action:
            # The same click again, and somebody who thinks otherwise: the first one stands.
            self.repeated += 1
            for again in (self._judge(question, said), self._judge(question, "deny")):
                self.other_answers += again != first

    def _judge(self, question: Question, said: Any) -> str:
        if said == "deny":
            return question.deny("semel check", actor=ACTOR).answer
        if said == "return":
            return question.return_("semel check", actor=ACTOR).answer
        return question.approve("semel check", actor=ACTOR).answer

    def _tell(self, run: dict[str, Any], wait: dict[str, Any]) -> bool:
        kind, _, name = str(wait["on"]).partition(" ")
        place = (str(run["id"]), str(wait["id"]))
        if kind != "signal" or place in self._done:
            return False
        self._done.add(place)
        is_callback, said_name = _callback_of(name)
        payload = self._payload(said_name, wait)
        # The identity of a delivery is the place that waits: after a crash it is the same one.
        identity = f"check {place[1]}"
        handle = self._app.run(run["id"])
        handle.signal(name, payload, id=identity)
        self.answered.append(["callback" if is_callback else "signal", said_name])
        if self._repeat == said_name:
            self.repeated += 1
            self.other_answers += self._is_heard(handle, name, payload, identity)
        return True

    def _payload(self, name: str, wait: dict[str, Any]) -> Any:
        if name in self._answers:
            return self._answers[name]
        note: Any = wait.get("note")
        choices: Any = cast(dict[str, Any], note).get("choices") if isinstance(note, dict) else None
        return choices[0] if choices else {}

    def _is_heard(self, handle: Any, name: str, payload: Any, identity: str) -> bool:
        """Delivers once more, and then something else under the same name of the delivery."""
        is_new = handle.signal(name, payload, id=identity)
        try:
            handle.signal(name, {"semel-check": "something else"}, id=identity)
        except SemelError as error:
            return bool(is_new) or error.code != "input_changed"
        return True


def _callback_of(signal: str) -> tuple[bool, str]:
    """Whether a signal is the answer to a callback, and the name that its author gave it."""
    before, after = callback_signal("\0").split("\0")
    if before + after and signal.startswith(before) and signal.endswith(after):
        inner = signal[len(before) : len(signal) - len(after)]
        return True, inner.rpartition("#")[0] or inner
    return False, signal
