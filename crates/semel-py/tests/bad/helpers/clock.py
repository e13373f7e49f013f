"""The clock, by another name."""

from __future__ import annotations

from time import time as moment


def stamp() -> str:
    """Seconds, as text."""
    return str(int(moment()))
