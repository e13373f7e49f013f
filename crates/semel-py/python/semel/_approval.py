"""Asking people: before an effect is sent, or for their word alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._contracts import Duration, optional_ms
from ._native import Ask
from ._template import TextMaker


@dataclass(frozen=True)
class ApprovalRule:
    """What an author asks a person for. Made by `approval`."""

    expires: Duration | None = None
    four_eyes: bool = False
    requested_by: str | Callable[..., str] | None = None
    note: str | Callable[..., str] | None = None


def approval(
    *,
    expires: Duration | None = None,
    four_eyes: bool = False,
    requested_by: str | Callable[..., str] | None = None,
    note: str | Callable[..., str] | None = None,
) -> ApprovalRule:
    """A person decides on the exact input before the effect is sent.

    `expires` is when silence is a no. `requested_by` says who wants it, `note` what whoever decides
    should know: templates over the parameters, or functions of them. With `four_eyes` whoever wants
    it may not decide."""
    return ApprovalRule(expires, four_eyes, requested_by, note)


class Asker:
    """Makes the question about one call."""

    def __init__(self, rule: ApprovalRule, names: Collection[str]) -> None:
        if not isinstance(rule, ApprovalRule):
            raise TypeError("approval= takes what `semel.approval(…)` returns")
        self._expires_ms = optional_ms(rule.expires)
        self._four_eyes = rule.four_eyes
        self._requester = _text(rule.requested_by, names, "requested_by")
        self._note = _text(rule.note, names, "note")
        # Now, and not at the first call: that may be in the middle of the night.
        Ask(self._expires_ms, None if self._requester is None else "somebody", self._four_eyes)
        self.names: set[str] = set()
        """The parameters that it looks at."""
        for maker in (self._requester, self._note):
            self.names |= set() if maker is None else maker.names

    def __call__(self, values: dict[str, Any]) -> Ask:
        requester = None if self._requester is None else self._requester(values)
        note = None if self._note is None else self._note(values)
        return Ask(self._expires_ms, requester, self._four_eyes, note)

    def uncalled(self) -> tuple[Ask, str | None]:
        """The question about an effect that no call planned, and why an outbox may not ask it.

        Texts that are made from arguments are left out. Without the name of the requester,
        four eyes cannot be told from two."""
        requester, note = _fixed(self._requester), _fixed(self._note)
        if self._four_eyes and requester is None:
            part = "four_eyes=True needs requested_by=, which is made from the call's arguments"
            return Ask(self._expires_ms, "another caller", True, note), part
        return Ask(self._expires_ms, requester, self._four_eyes, note), None


def _fixed(maker: TextMaker | None) -> str | None:
    return None if maker is None or maker.names else maker({})


def _text(
    source: str | Callable[..., str] | None, names: Collection[str], what: str
) -> TextMaker | None:
    return None if source is None else TextMaker(source, names, what)


@dataclass(frozen=True)
class Approval:
    """A person's yes."""

    by: str
    """Who said it."""
    note: str
    """What they said beside it."""
    at: datetime
    """When."""
