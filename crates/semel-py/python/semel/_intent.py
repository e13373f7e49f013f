"""The intent that the running code carries out."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import SemelError

if TYPE_CHECKING:
    from ._native import SendIntent


@dataclass(frozen=True)
class Intent:
    """One wish of the business, as the effect's function sees it while it carries it out."""

    _native: SendIntent

    @property
    def downstream_key(self) -> str:
        """The key for the provider, the same in every attempt. Reading it counts as passing it
        on."""
        return self._native.downstream_key

    def is_downstream_key(self, text: str) -> bool:
        """Whether this text is that key. If so it counts as passed on: a caller that asks is about
        to send it."""
        return self._native.is_downstream_key(text)

    @property
    def namespace(self) -> str:
        """The namespace of the effect."""
        return self._native.namespace

    @property
    def action(self) -> str:
        """The kind of effect."""
        return self._native.action

    @property
    def key(self) -> str:
        """The business key, as the command line prints it."""
        return self._native.key

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._native.attempt

    @property
    def fence(self) -> int:
        """The fence of this attempt: it grows with every one."""
        return self._native.fence


_current: ContextVar[Intent | None] = ContextVar("semel_intent", default=None)


def current() -> Intent | None:
    """The intent that the running code carries out, if it is the code of an effect."""
    return _current.get()


def intent() -> Intent:
    """The intent that the running code carries out.

    Only the function of an effect has one."""
    found = _current.get()
    if found is None:
        detail = "semel.intent() was called outside of an effect"
        raise SemelError(detail, code="no_intent")
    return found
