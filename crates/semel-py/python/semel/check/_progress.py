"""What whoever waits for a check sees meanwhile."""

from __future__ import annotations

import time
from typing import Any, TextIO

WIDTH = 24


class Progress:
    """On a terminal a bar below the cases; elsewhere the cases alone."""

    def __init__(self, out: TextIO, is_quiet: bool) -> None:
        self._out = out
        self._is_quiet = is_quiet
        self._is_terminal = out.isatty()
        self._began = time.monotonic()
        self._failed = 0

    def hear(self, count: int, of: int, verdict: dict[str, Any]) -> None:
        """A case is over."""
        self._failed += not verdict["is_ok"]
        if self._is_terminal:
            self._out.write("\r\x1b[K")
        if not self._is_quiet:
            self._out.write(told(verdict))
        if self._is_terminal:
            self._out.write(self._bar(count, of) if count < of else "")
        self._out.flush()

    def _bar(self, count: int, of: int) -> str:
        done = WIDTH * count // of
        seconds = int(time.monotonic() - self._began)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"[{'=' * done}{' ' * (WIDTH - done)}] {count} of {of} cases, {seconds} s{failed}"


def told(verdict: dict[str, Any]) -> str:
    """One case: what was done, what came of it, and the lines of the promise."""
    mark = "ok  " if verdict["is_ok"] else "FAIL"
    lines = [f"{mark} {verdict['name']}: {verdict['outcome']}"]
    for line in verdict["lines"]:
        if line["state"] != "silent":
            no = "" if line["state"] == "yes" else "NO: "
            lines.append(f"     {line['what']:<10} {no}{line['text']}")
    return "\n".join(lines) + "\n"
