"""`semel check` on small applications: how lives die and recover, and what the command answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from check_apps import APPROVED, BAD, BOOKS, COUNTER, GOOD, OPENS, READS_AFTER
from check_desk import FAILED, NOT_FOUND, OK, USAGE, Desk
from semel.check import check_workflow
from semel.check._seen import one_result


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {verdict["name"]: verdict["outcome"] for verdict in report["verdicts"]}


def test_a_run_that_sleeps_a_week_and_waits_for_a_signal_is_checked_in_seconds(desk: Desk) -> None:
    done = desk.check(GOOD, "app.py:week", "--budget", "12", "--junit", "junit.xml")
    assert done.returncode == OK, done.stdout + done.stderr
    assert "week: ok." in done.stdout and "cases left out by the budget" in done.stdout
    # Each case says what was done and what came of it.
    assert "ok   repeat_signal go: once" in done.stderr
    assert "one object letter: 1 of 1" in done.stderr
    assert "no outside call" in done.stderr
    suite = ElementTree.parse(desk.folder / "junit.xml").getroot()
    assert len(list(suite.iter("testcase"))) == 12
    assert not list(suite.iter("failure"))


def test_a_process_is_killed_for_real_in_both_modes(desk: Desk) -> None:
    """Before the receipt is on record, and after the letter is sent: the worst moment."""
    case = "kill before letter done"
    for mode in ("fast", "process"):
        report = desk.report(GOOD, "app.py:week", "--mode", mode, "--only", case)
        assert outcomes(report) == {case: "once"}
        trace = next(one for one in report["verdicts"][0]["lines"] if one["what"] == "trace")
        assert trace["state"] == "yes", trace


def test_a_stopped_process_wakes_up_late_and_changes_nothing(desk: Desk) -> None:
    for point in ("after letter pending", "before letter done", "after step think"):
        case = f"pause_beyond_lease {point}"
        assert outcomes(desk.report(GOOD, "app.py:week", "--only", case)) == {case: "once"}


def test_an_unprotected_send_fails_with_the_command_that_shows_it(desk: Desk) -> None:
    done = desk.check(BAD, "app.py", "--junit", "junit.xml")
    assert done.returncode == FAILED
    assert "!twice" in done.stdout and "plain" not in done.stderr.splitlines()[0]
    [line] = [line for line in done.stdout.splitlines() if "--only 'kill before step" in line]
    suite = ElementTree.parse(desk.folder / "junit.xml").getroot()
    assert list(suite.iter("failure"))
    # The command is a whole one.
    words = line.split("again: semel ", 1)[1]
    again = subprocess.run(
        f"{sys.executable} -m semel {words}", shell=True, cwd=desk.folder, capture_output=True
    )
    assert again.returncode == FAILED
    assert b"1 twice" in again.stdout


def test_req_o8_a_refusal_after_an_earlier_call_went_through_is_tried(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "refuse_after send 2: CRM_URL GET /tickets"
    words = ("app.py:ticket", "--double", "CRM_URL=lookup", "--only", case)
    assert outcomes(desk.report(READS_AFTER, *words)) == {case: "in_doubt"}
    # Whoever takes the refusal for a proof sends the write again.
    monkeypatch.setenv("BELIEVES", "1")
    assert outcomes(desk.report(READS_AFTER, *words)) == {case: "twice"}


def test_repeated_answers_change_nothing(desk: Desk) -> None:
    done = desk.check(APPROVED, "app.py:asked", "--budget", "14")
    assert done.returncode == OK, done.stdout + done.stderr
    assert "ok   repeat_approval letter: once" in done.stderr
    assert "ok   repeat_callback report: once" in done.stderr
    assert "ok   duplicates: once" in done.stderr


def test_a_file_that_opens_its_ledger_is_checked_beside_it(desk: Desk) -> None:
    """The store that it names is its user's, and is not touched."""
    desk.folder.joinpath("in.json").write_text('{"x": 1}')
    done = desk.check(OPENS, "app.py:send", "--budget", "3")
    assert done.returncode == OK, done.stdout + done.stderr
    assert "note: each life is a process of its own" in done.stderr
    assert not list(desk.folder.glob("precious*"))


def test_what_cannot_be_checked_is_said(desk: Desk) -> None:
    def code(app: str, *words: str) -> tuple[int, str]:
        done = desk.check(app, *words)
        return done.returncode, done.stderr

    assert code(GOOD, "none.py:week") == (NOT_FOUND, "error: there is no file none.py\n")
    found, words = code(GOOD, "app.py:month")
    assert found == NOT_FOUND and "it has: week" in words
    found, words = code(GOOD, "app.py:week", "--only", "kill nobody")
    assert found == NOT_FOUND and "kill nobody" in words
    assert code(GOOD, "app.py:week", "--budget", "much")[0] == USAGE
    found, words = code("import nothing_of_the_kind", "app.py:week")
    assert found == FAILED and "nothing_of_the_kind" in words
    desk.folder.joinpath("in.json").write_text('"one"')
    found, words = code(GOOD, "app.py:week")
    assert found == FAILED and "does not fit" in words


def test_a_run_that_does_not_end_by_itself_is_not_checked(desk: Desk) -> None:
    lonely = GOOD.replace('await ctx.sleep("7d")', 'await ctx.child("nobody", 1)')
    desk.folder.joinpath("app.py").write_text(lonely)
    done = desk.check(lonely, "app.py:week")
    assert done.returncode == FAILED
    assert "without any fault" in done.stderr


def test_a_workflow_is_checked_from_python(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "app.py").write_text(GOOD)
    (tmp_path / "count.py").write_text(COUNTER)
    report = check_workflow(
        f"{tmp_path / 'app.py'}:week",
        1,
        counter=f"{tmp_path / 'count.py'}:count",
        respond={"go": {"word": "now"}},
        budget=2,
    )
    report.assert_ok()
    assert report.outcomes == {"once": 2} and report.left_out > 40
    assert "week: ok" in repr(report)


def test_a_transaction_is_checked_on_the_ledger_of_its_case(desk: Desk) -> None:
    report = desk.report(BOOKS, "app.py:books", "--budget", "12")
    assert {one["outcome"] for one in report["verdicts"]} == {"once"}, report


def test_a_result_is_compared_only_where_it_is_always_the_same() -> None:
    assert one_result([{"result": "1"}, {"result": "1"}]) == "1"
    assert one_result([{"result": "1"}, {"result": "2"}]) is None


def test_a_rehearsal_says_so_and_pushes_no_clock_of_a_server(tmp_path: Path) -> None:
    def opens(url: str) -> subprocess.CompletedProcess[str]:
        code = f"from semel import Semel; Semel({url!r})"
        env = {**os.environ, "SEMEL_REHEARSE_AHEAD_MS": "5"}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)

    own = opens(f"sqlite:{tmp_path}/semel.db")
    said = "rehearsal: this process obeys SEMEL_REHEARSE_AHEAD_MS, it is not for production"
    assert own.returncode == 0, own.stderr
    assert own.stderr.splitlines().count(said) == 1
    server = opens("postgres://127.0.0.1:1/none")
    assert server.returncode != 0
    assert "works only on SQLite" in server.stderr
