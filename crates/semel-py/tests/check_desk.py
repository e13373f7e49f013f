"""A folder with an application, in which tests call `semel check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from check_apps import COUNTER

OK, FAILED, USAGE, NOT_FOUND = 0, 1, 2, 3
USUAL = ["--input", "in.json", "--respond", "respond.json", "--counter", "count.py:count"]


class Desk:
    """A folder with an application and its counter, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "count.py").write_text(COUNTER)
        (folder / "in.json").write_text("1")
        (folder / "respond.json").write_text('{"go": {"word": "now"}, "report": "fine"}')

    def check(self, app: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`semel check`, with everything it needs."""
        return self.run(app, *words, *USUAL)

    def run(self, app: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`semel check`, with these words alone."""
        ended = self.begin(app, *words)
        stdout, stderr = ended.communicate(timeout=120)
        return subprocess.CompletedProcess(words, ended.returncode, stdout, stderr)

    def begin(self, app: str, *words: str) -> subprocess.Popen[str]:
        """The same, under way."""
        (self.folder / "app.py").write_text(app)
        line = [sys.executable, "-m", "semel", "check", *words]
        env = {name: value for name, value in os.environ.items() if "SEMEL" not in name}
        pipe = subprocess.PIPE
        env["BOOK"] = str(self.folder / "book")
        return subprocess.Popen(line, cwd=self.folder, env=env, stdout=pipe, stderr=pipe, text=True)

    def report(self, app: str, *words: str) -> dict[str, Any]:
        """The report of a check, read."""
        done = self.check(app, *words, "--json")
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout))
