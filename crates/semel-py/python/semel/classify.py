"""What an exception proves about the call that raised it."""

from __future__ import annotations

from ._errors import NotApplied, Refused


def error(exception: BaseException) -> NotApplied | Refused | None:
    """Proof that nothing happened, or None when nobody knows."""
    if isinstance(exception, ConnectionRefusedError):
        return NotApplied(str(exception))
    return None
