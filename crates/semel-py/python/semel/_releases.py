"""Releases: which versions of a workflow's code there are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Release:
    """One version of a workflow's code."""

    workflow: str
    name: str
    is_live: bool
    """New runs start on this one."""
    is_draft: bool
    """It is tried in the draft twin, until somebody promotes it."""
    is_strict: bool
    """Its runs never move to another release by themselves."""
    first: datetime
    """When it was first offered."""
    seen: datetime
    """When a worker last said that it offers this."""


def read_releases(text: str) -> list[Release]:
    """All releases, as the engine tells them."""
    return [
        Release(
            workflow,
            one["name"],
            one["name"] == known.get("live"),
            one.get("draft", False),
            one.get("strict", False),
            _moment(one["first"]),
            _moment(one["seen"]),
        )
        for workflow, known in json.loads(text)
        for one in known["known"]
    ]


def _moment(ms: Any) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)
