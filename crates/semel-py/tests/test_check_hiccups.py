"""What goes wrong around a check, and not in the workflow, costs no verdicts and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from check_apps import BAD, COUNTER, DESTINATION, GOOD
from check_desk import FAILED, NOT_FOUND, USAGE, Desk
from semel.check import _cases, check_workflow
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


# Takes longer than whoever goes on has, in the tests that make that little.
LONG = (
    DESTINATION
    + """
import time


@workflow
async def long(ctx: WorkflowContext, x: int) -> int:
    await ctx.step("think", lambda: time.sleep(0.4))
    return x
"""
)
PAUSE = "pause_beyond_lease before step think"


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


def test_a_long_workflow_has_the_time_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOK", "none")
    monkeypatch.setattr(_cases, "BLOCKED_SECONDS", 0.001)
    (tmp_path / "app.py").write_text(LONG)
    report = check_workflow(f"{tmp_path / 'app.py'}:long", 1, only=PAUSE)
    assert report.outcomes == {"once": 1}, report.text
    # Who cannot go on at all says nothing of the workflow: the case is left out.
    monkeypatch.setattr(_cases, "BLOCKED_TIMES", 0)
    report = check_workflow(f"{tmp_path / 'app.py'}:long", 1, only=PAUSE)
    assert (report.verdicts, report.left_out) == ([], 1)


def test_a_counter_that_fails_once_costs_one_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOK", "none")
    (tmp_path / "app.py").write_text(LONG)
    asked: list[int] = []

    def count() -> dict[str, int]:
        asked.append(1)
        # Two undisturbed runs ask four times; this is the first case.
        if len(asked) == 5:
            raise ConnectionError("the mail server is away")
        return {}

    report = check_workflow(f"{tmp_path / 'app.py'}:long", 1, counter=count, budget=2)
    assert report.outcomes == {"error": 1, "once": 1}
    assert "the mail server is away" in report.text


def test_a_wrong_line_is_known_by_its_exit_code(desk: Desk) -> None:
    (desk.folder / "broken.json").write_text("{")

    def code(*words: str) -> tuple[int, str]:
        done = desk.run(GOOD, "app.py:week", "--budget", "1", *words)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    ended, words = code("--double", "CRM_URL=nonsense")
    assert ended == USAGE and "there are keys, lookup" in words
    assert code("--double", "CRM_URL=none.json") == (
        NOT_FOUND,
        "error: there is no file none.json\n",
    )
    ended, words = code("--double", "CRM_URL=broken.json")
    assert ended == USAGE and "is no script" in words
    assert code("--input", "broken.json")[0] == USAGE
    assert code("--respond", "{")[0] == USAGE
    assert code("--respond", "in.json")[0] == USAGE
    ended, words = code("--input", ".")
    assert ended == NOT_FOUND and "cannot be read" in words
    # Before the minutes that a check may take, and not after them.
    ended, words = code("--junit", "none/junit.xml", "--input", "in.json")
    assert ended == NOT_FOUND and "there is no folder none" in words


def test_the_command_to_play_a_case_again_has_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = BAD.replace(
        "return await ctx.step(send, x)",
        """answer = await ctx.wait_for_signal("go", timeout="30d")
    return f"{await ctx.step(send, x)} {answer.word}\"""",
    )
    (tmp_path / "app.py").write_text(waits)
    (tmp_path / "count.py").write_text(COUNTER)
    monkeypatch.chdir(tmp_path)
    case = "kill before step send"
    respond = {"go": {"word": "it's now"}}
    report = check_workflow("app.py:plain", 1, counter="count.py:count", respond=respond, only=case)
    assert report.outcomes == {"twice": 1}, report.text
    [verdict] = report.verdicts
    line = verdict["reproduce"].replace("semel check", f"{sys.executable} -m semel check")
    again = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert again.returncode == FAILED and "1 twice" in again.stdout, again.stderr
