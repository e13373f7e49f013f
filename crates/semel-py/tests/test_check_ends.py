"""How a run ends undisturbed, and whether anybody counts: a check that shows nothing is not ok."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_apps import DESTINATION
from check_desk import FAILED, OK, USUAL, Desk

UNCOUNTED = "no destination is counted: sends go to the real addresses"

BROKEN = (
    DESTINATION
    + """

@workflow
async def broken(ctx: WorkflowContext, x: int) -> str:
    raise semel.Fail("the price is not there")
"""
)
ALONE = (
    DESTINATION
    + """

@workflow
async def alone(ctx: WorkflowContext, x: int) -> int:
    return x
"""
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_workflow_that_fails_undisturbed_is_not_ok(desk: Desk) -> None:
    done = desk.check(BROKEN, "app.py:broken", "--budget", "2")
    assert done.returncode == FAILED, done.stdout
    assert "the run ends as failed and not as done" in done.stderr
    assert "the price is not there" in done.stderr and "--ends failed" in done.stderr
    assert "ok" not in done.stdout


def test_a_workflow_may_be_meant_to_fail(desk: Desk) -> None:
    done = desk.check(BROKEN, "app.py:broken", "--budget", "2", "--ends", "failed", "--json")
    assert done.returncode == OK, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ends"] == "failed" and "the price is not there" in report["detail"]
    assert "the price is not there" in report["notes"][0]
    # It is an error as well when it ends better than it was said to.
    done = desk.check(ALONE, "app.py:alone", "--budget", "1", "--ends", "failed")
    assert done.returncode == FAILED
    assert "ends as done and not as failed" in done.stderr


def test_sends_that_nobody_counts_are_announced(desk: Desk) -> None:
    done = desk.run(ALONE, "app.py:alone", "--input", "in.json", "--budget", "1")
    assert done.returncode == OK, done.stderr
    assert done.stderr.startswith(f"note: {UNCOUNTED}")
    assert UNCOUNTED in done.stdout
    done = desk.run(ALONE, "app.py:alone", *USUAL, "--budget", "1")
    assert UNCOUNTED not in done.stderr + done.stdout
