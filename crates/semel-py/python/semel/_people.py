"""What waits for people, seen from outside, and deciding it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from ._codec import codec
from ._handles import actor_name
from ._host import Begin, Host, ask_blocking

if TYPE_CHECKING:
    from . import _native

Answer = Literal["approved", "denied", "returned", "expired"]


@dataclass(frozen=True)
class Decision:
    """The answer that stands."""

    answer: Answer
    by: str
    note: str
    at: datetime
    is_new: bool
    """Given now. Otherwise it is the first one, whatever was asked for."""


class _Question:
    """A question as it was loaded: an answer is about exactly this."""

    def __init__(self, native: _native.App, view: dict[str, Any], input: Any) -> None:
        approval: dict[str, Any] = view["approval"]
        self._native = native
        self.action: str = view["action"]
        """The kind of effect, or the name of a question that sends nothing."""
        self.key: str = view["key"]
        """The business key, as the command line prints it."""
        self.input: Any = input
        """What would be sent, as plain JSON."""
        self.digest: str = approval["digest"]
        """Names action, contract and the whole input."""
        self.requested_by: str | None = approval.get("requester")
        self.note: str | None = approval.get("note")
        """What the author says to whoever decides."""
        self.four_eyes: bool = approval["four_eyes"]
        """Whoever wants it may not decide."""
        self.only: bool = approval["only"]
        """There is nothing to send: the answer is all."""
        self.asked_at: datetime = codec(datetime).load(json.dumps(approval["asked_at"]))
        expires: Any = approval.get("expires_at")
        self.expires_at: datetime | None = codec(datetime | None).load(json.dumps(expires))
        """When silence is a no."""
        self.workflow: str | None = view.get("workflow")
        self.run_id: str | None = view.get("run")

    def _judge(self, answer: Answer, actor: str | None, reason: str) -> Begin:
        native, who = self._native, actor or actor_name()
        return lambda inbox, token: native.judge(
            inbox, token, self.action, self.key, self.digest, answer, who, reason
        )

    def __repr__(self) -> str:
        return f"<question {self.action}/{self.key}>"


class Question(_Question):
    """Something that waits for a person."""

    def approve(self, note: str = "", actor: str | None = None) -> Decision:
        """Yes, to exactly this. The first decision stands, whoever comes later."""
        return read_decision(ask_blocking(self._judge("approved", actor, note)))

    def deny(self, reason: str, actor: str | None = None) -> Decision:
        """No."""
        return read_decision(ask_blocking(self._judge("denied", actor, reason)))

    def return_(self, reason: str, actor: str | None = None) -> Decision:
        """Not like this: its author may change it, which is another intent under another key."""
        return read_decision(ask_blocking(self._judge("returned", actor, reason)))


class AsyncQuestion(_Question):
    """Something that waits for a person, for async code."""

    async def approve(self, note: str = "", actor: str | None = None) -> Decision:
        """Yes, to exactly this. The first decision stands, whoever comes later."""
        return read_decision(await Host.running().ask(self._judge("approved", actor, note)))

    async def deny(self, reason: str, actor: str | None = None) -> Decision:
        """No."""
        return read_decision(await Host.running().ask(self._judge("denied", actor, reason)))

    async def return_(self, reason: str, actor: str | None = None) -> Decision:
        """Not like this: its author may change it, which is another intent under another key."""
        return read_decision(await Host.running().ask(self._judge("returned", actor, reason)))


def read_decision(text: str) -> Decision:
    """The answer that stands, as the engine tells it."""
    decision: Decision = codec(Decision).load(text)
    return decision
