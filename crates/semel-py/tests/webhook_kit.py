"""What the tests of webhooks in share: a server of its own process, and a sender."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

COMMAND = os.environ.get("SEMEL_TEST_COMMAND", f"{sys.executable} -m semel").split()
"""The command under test; another build of it can be named."""


@dataclass(frozen=True)
class Answer:
    """What a sender gets."""

    status: int
    body: dict[str, Any]


class Server:
    """`semel serve` with the triggers of a file."""

    def __init__(self, folder: Path, store: str, triggers: str, **secrets: str) -> None:
        file = folder / "semel.toml"
        file.write_text(triggers)
        line = [*COMMAND, "--config", str(file), "--store", store]
        self._line = line
        self._environment = {**os.environ, **secrets}
        self._process = subprocess.Popen(
            [*line, "serve", "--listen", "127.0.0.1:0"],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("listening on "), said
        self.url = said.removeprefix("listening on ").strip()

    def deliver(self, trigger: str, headers: Mapping[str, str], body: str | bytes) -> Answer:
        """Posts one delivery, byte for byte."""
        data = body.encode() if isinstance(body, str) else body
        answer = requests.post(
            f"{self.url}/hooks/{trigger}", data=data, headers=dict(headers), timeout=40
        )
        return Answer(answer.status_code, answer.json())

    def verdicts(self, trigger: str) -> list[str]:
        """What became of the deliveries, the oldest first."""
        answer = requests.get(f"{self.url}/v1/triggers/{trigger}/deliveries", timeout=40)
        return [item["verdict"] for item in reversed(answer.json()["items"])]

    def runs(self) -> list[dict[str, Any]]:
        """All runs, the newest first."""
        items = requests.get(f"{self.url}/v1/runs?limit=1000", timeout=40).json()["items"]
        assert isinstance(items, list)
        return items

    def kill(self) -> None:
        """Ends the server as a power cut would."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        """Ends the server, which writes what it has noted."""
        self._process.terminate()
        assert self._process.wait(timeout=40) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()

    def command(self, *words: str) -> Any:
        """What another command says of the same store, as JSON."""
        done = subprocess.run(
            [*self._line, *words, "--json"],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
