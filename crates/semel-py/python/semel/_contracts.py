"""What a destination offers, and so what may be promised about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ._errors import SemelError
from ._native import Again, duration_ms

Duration = str | float | timedelta
"""A time: `"500ms"`, `"15m"`, `"24h"`, `"7d"`, seconds, or a timedelta."""


def milliseconds(duration: Duration) -> int:
    """A duration in milliseconds."""
    if isinstance(duration, str):
        return duration_ms(duration)
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    # Written out, so that one place judges what a duration may be.
    return duration_ms(f"{round(seconds * 1000)}ms")


def optional_ms(duration: Duration | None) -> int | None:
    """A duration that may be left out."""
    return None if duration is None else milliseconds(duration)


def rate_parts(rate: str) -> tuple[int, int]:
    """A rate such as `"10/1s"`: how many, and in how many milliseconds."""
    count, slash, per = rate.partition("/")
    if not slash or not count.strip().isdecimal():
        detail = f'{rate!r}: a rate is a count and a time, such as "10/1s"'
        raise SemelError(detail, code="input_invalid")
    return int(count), milliseconds(per.strip())


@dataclass(frozen=True)
class Contract:
    """The contract of a destination. Made by `native_key` and its neighbours."""

    name: str
    retention_ms: int | None = None
    look: Callable[..., Any] | None = None
    look_first: bool = False


def native_key(retention: Duration = "24h") -> Contract:
    """The destination honours an idempotency key for a time.

    Effectively once, while every send is before first_sent + retention - settle window; at that
    horizon it stops and stays in doubt. Pass on `semel.intent().downstream_key`."""
    return Contract("native_key", retention_ms=milliseconds(retention))


def probe(look: Callable[..., Any], first: bool = False) -> Contract:
    """The destination can be asked for our reference.

    `look` has parameters of the same names as the effect, any of them; it returns None when nothing
    is there, else the receipt, or the list of all that is there. After a doubt it waits, looks, and
    sends again only if nothing is there; with `first` it looks before the first send, too."""
    return Contract("probe", look=look, look_first=first)


conditional = Contract("conditional")
"""Create-if-absent by our id, or a version guard: the final state is as if once."""

at_most_once = Contract("at_most_once")
"""The destination offers nothing: a cut attempt is in doubt until a person or late evidence
decides. What an effect gets that declares no contract."""

harmless = Contract("harmless")
"""Repeats do no harm: at least once."""


@dataclass(frozen=True)
class Retry:
    """How often and how long to try again: never for ever."""

    attempts: int | None = None
    """How many tries in all, the first included (10)."""
    first: Duration | None = None
    """The first delay is drawn from zero up to this (500 ms); then it doubles."""
    longest: Duration | None = None
    """No delay is longer than this (30 s)."""
    total: Duration | None = None
    """No try starts later than this after the first (10 min)."""

    def native(self) -> Again:
        """The policy as the engine takes it."""
        return Again(
            self.attempts,
            optional_ms(self.first),
            optional_ms(self.longest),
            optional_ms(self.total),
        )


def again(retries: int | Retry | None) -> Again:
    """The policy that `retries=` declares: how often it is tried *again*, or a whole policy."""
    if isinstance(retries, Retry):
        return retries.native()
    if retries is None:
        return Again()
    if retries < 0:
        raise ValueError("retries is a whole number from 0, or a Retry")
    return Again(retries + 1)
