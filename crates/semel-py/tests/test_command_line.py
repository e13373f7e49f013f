"""The command line of the package, as a person at a terminal has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Script


def test_ctrl_c_ends_a_command_that_runs_in_rust(script: Script) -> None:
    command = script.start("-m", "semel", "bench", "runs")
    time.sleep(1)
    assert command.poll() is None  # it takes much longer
    command.send_signal(signal.SIGINT)
    try:
        command.communicate(timeout=5)
    finally:
        command.kill()
    assert command.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    "line",
    [
        ["--version"],
        ["demo", "--keep", "kept"],
        ["migrate"],
        ["doctor"],
        ["effects", "ls"],
        ["runs", "ls"],
        ["verify"],
        ["backup", "copy.db"],
    ],
    ids=lambda line: line[0],
)
def test_the_installed_command_does_what_the_program_does(tmp_path: Path, line: list[str]) -> None:
    """Also where it starts itself again: in the package the running program is Python."""
    environment = {**os.environ, "SEMEL_STORE": "sqlite:semel.db"}
    semel = [sys.executable, "-m", "semel"]
    subprocess.run([*semel, "migrate"], cwd=tmp_path, env=environment, check=True, timeout=60)
    ended = subprocess.run(
        [*semel, *line],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
