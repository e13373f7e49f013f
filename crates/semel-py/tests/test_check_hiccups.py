"""What goes wrong around a check, and not in the workflow, costs no verdicts and leaves nothing."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest
from check_apps import DESTINATION
from check_desk import Desk
from semel.check._double import Double, Wanted

INTERRUPTED = 130

SLOW = (
    DESTINATION
    + """
import time
from pathlib import Path


@workflow
async def slow(ctx: WorkflowContext, x: int) -> int:
    def block():
        Path(__file__).with_name("life").write_text(str(os.getpid()))
        time.sleep(60)

    await ctx.step("block", block)
    return x
"""
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_whoever_ends_a_check_ends_its_lives(desk: Desk) -> None:
    check = desk.begin(SLOW, "app.py:slow", "--input", "in.json")
    life = desk.folder / "life"
    until = time.monotonic() + 30
    while not (life.exists() and life.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    pid = int(life.read_text())
    assert is_alive(pid)
    check.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    _, words = check.communicate(timeout=20)
    assert check.returncode == INTERRUPTED, words
    # At once, and not when somebody's patience is over.
    assert time.monotonic() - asked < 4
    while is_alive(pid) and time.monotonic() < asked + 4:
        time.sleep(0.02)
    try:
        assert not is_alive(pid)
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_proxy_is_not_asked_for_a_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(urllib.request, "_opener", None)
    double = Double(Wanted("CRM_URL", "keys"), tmp_path)
    try:
        double.reset()
        assert double.requests() == []
    finally:
        double.close()
