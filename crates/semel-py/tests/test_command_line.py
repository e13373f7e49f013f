"""The command line of the package, as a person at a terminal has it."""

from __future__ import annotations

import signal
import time

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
