"""What a check came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import _native


class Report:
    """All verdicts on one workflow. `print(report)` shows the table and each failure."""

    def __init__(
        self, told: str, *, ends: tuple[str, str | None], notes: Sequence[str] = ()
    ) -> None:
        found: dict[str, Any] = json.loads(_native.check_show(told))
        self.notes = list(notes)
        """What has to be known of this check, beside its verdicts."""
        self.ends, self.detail = ends
        """How the run ends where nothing goes wrong: `done`, or `failed` and why."""
        self.text: str = found["text"] + "".join(f"note: {note}\n" for note in notes)
        """Places by faults, each failure with the command that plays it again, and the summary."""
        self.summary: str = " ".join([found["summary"], *(f"Note: {note}." for note in notes)])
        """One line."""
        self.junit: str = found["junit"]
        """For a build server."""
        self.is_ok: bool = found["is_ok"]
        """Something was tried, and the promise held every time."""
        document: dict[str, Any] = json.loads(told)
        document |= {"ends": self.ends, "detail": self.detail, "notes": self.notes}
        self._told = json.dumps(document)
        self.verdicts: list[dict[str, Any]] = document["verdicts"]
        self.points: list[str] = document["points"]
        self.left_out: int = document["left_out"]
        """Cases that the budget left out."""

    @property
    def outcomes(self) -> dict[str, int]:
        """How many cases came to what: `once`, `in_doubt`, `twice`, …"""
        found: dict[str, int] = {}
        for verdict in self.verdicts:
            found[verdict["outcome"]] = found.get(verdict["outcome"], 0) + 1
        return found

    def json(self) -> str:
        """The whole report."""
        return self._told

    def assert_ok(self) -> None:
        """Raises `AssertionError`, with the report, where the promise did not hold."""
        assert self.is_ok, f"\n{self.text}"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<report: {self.summary}>"
