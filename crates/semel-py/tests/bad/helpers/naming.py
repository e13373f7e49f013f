"""Names for things."""

from __future__ import annotations

from .clock import stamp


def reference(request_id: str, suffix: str | None = None) -> str:
    """A name for a request, which looks stable."""
    suffix = suffix or stamp()
    return "-".join([request_id, suffix])
