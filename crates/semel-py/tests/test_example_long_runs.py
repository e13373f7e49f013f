"""What each example of a long run is there to show."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import until
from destinations import Fault
from example_catalogue import Example
from example_long_runs import (
    LONG_AGENT,
    NIGHTLY_REPORT,
    REFUND_APPROVAL,
    SAGA_ORDER,
    TWO_AGENTS,
    VENDOR_RESEARCH,
    refunds_of,
    settle_refunds,
)
from example_stage import Stage, on_stage


def on_stage_of(example: Example) -> contextlib.AbstractContextManager[Stage]:
    """Its destinations and a store of its own."""
    return on_stage(example.name, example.destinations, "sqlite")


def items(stage: Stage, kind: str) -> list[dict[str, Any]]:
    """What the command lists: runs or schedules."""
    shown = stage.start(kind, "ls", "--json", program=["-m", "semel"], env=at("02:02:00"))
    assert shown.end() == 0, shown.words()
    found: list[dict[str, Any]] = json.loads(shown.printed())["items"]
    return found


def test_req_o4_an_order_that_cannot_be_shipped_is_taken_back_the_last_first() -> None:
    with on_stage_of(SAGA_ORDER) as stage:
        stage.finish("order-1")
        done = stage["shop"].book.lines("applied", order="order-1")
        assert [line["what"] for line in done] == ["reservation", "charge", "refund", "release"]
        assert (done[2]["of"], done[3]["of"]) == (done[1]["id"], done[0]["id"])


def test_an_order_that_can_be_shipped_is_left_alone() -> None:
    with on_stage_of(SAGA_ORDER) as stage:
        worker = stage.start("order-1", env={"SHIP_TO": "Rome"})
        assert worker.end() == 0, worker.words()
        assert worker.outcome()["order-1"][0]["id"] == "parcel-3"
        lines = stage["shop"].book.lines("applied")
        assert [line["what"] for line in lines] == ["reservation", "charge", "parcel"]


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_refund_that_was_cut_is_in_doubt_and_not_repeated(phase: str) -> None:
    with on_stage_of(SAGA_ORDER) as stage:
        stage["shop"].faults.add(Fault("reset", phase, on=SAGA_ORDER.writes))  # type: ignore[arg-type]
        for _ in "12":
            outcome = stage.finish("order-1")
            assert outcome == {"order-1": [{"in_doubt": "refund"}] * 2}
            arrived = stage["shop"].book.lines("arrived", what="POST /refunds")
            assert len(arrived) == 1, "it was sent again"
            assert not stage["shop"].book.lines("applied", what="release"), "out of turn"
        assert settle_refunds(stage, outcome) == 1
        end = stage.finish("order-1")["order-1"][0]
        assert end["taken_back"][0] == refunds_of(stage, "order-1")[0]
        assert SAGA_ORDER.objects(stage) == dict.fromkeys(SAGA_ORDER.wants("order-1"), 1)  # type: ignore[misc]


def test_req_c5_two_processes_act_on_one_ticket_and_nobody_is_ever_too_late() -> None:
    with on_stage_of(TWO_AGENTS) as stage:
        # Slow enough that both would have read the same version, were they let in together.
        stage["records"].faults.add(Fault("stall", on="PUT", times=4, seconds=0.2))
        workers = [stage.start("a-1", "a-2"), stage.start("b-1", "b-2")]
        assert [worker.end() for worker in workers] == [0, 0]
        written = stage["records"].book.lines("applied")
        assert [line["value"] for line in written] == [1, 2, 3, 4]
        assert {line["by"] for line in written} == {"a-1", "a-2", "b-1", "b-2"}
        asked = stage["records"].book.lines("arrived", what="PUT /records/ticket-42")
        assert len(asked) == len(written), "somebody wrote on a version that was gone"


def test_req_a7_of_three_reports_one_is_taken_one_known_and_one_refused() -> None:
    with on_stage_of(LONG_AGENT) as stage:
        first = stage.start("job-1")
        assert first.end() == 0, first.words()
        assert "job-1: taken, known, refused" in first.words()
        again = stage.start("job-1")
        assert again.end() == 0, again.words()
        assert "job-1: known, known, refused" in again.words()
        [ticket] = stage["crm"].book.lines("applied", what="ticket")
        assert ticket["subject"] == "job-1 is a bearing"


def test_large_documents_are_on_the_shelf_and_not_in_the_journal() -> None:
    with on_stage_of(VENDOR_RESEARCH) as stage:
        stage.finish("pumps")
        documents = list((stage.folder / "artefacts").iterdir())
        assert len(documents) == 3, documents
        for document in documents:
            content = document.read_bytes()
            assert hashlib.sha256(content).hexdigest() == document.name
            assert len(content) > 500_000
        assert sorted(run["workflow"] for run in items(stage, "runs")) == [
            "compare",
            *["one_vendor"] * 3,
        ]
        database = sum(path.stat().st_size for path in stage.folder.glob("semel.db*"))
        assert database < 500_000 * len(documents) / 2, "the documents went into the store"


def test_req_a2_the_first_click_stands_and_an_unchanged_wish_is_not_asked_about_again() -> None:
    with on_stage_of(REFUND_APPROVAL) as stage:
        first = stage.start("order-1")
        assert first.end() == 0, first.words()
        assert first.words().splitlines() == [
            "order-1 v1: returned by ann",
            *["order-1 v1: half of it is enough"] * 2,
            "order-1 v2: approved by ann",
        ]
        again = stage.start("order-1")
        assert again.end() == 0, again.words()
        assert again.words().splitlines() == ["order-1 v1: half of it is enough"] * 2, "no question"
        assert again.outcome() == first.outcome()


def test_another_amount_under_the_same_version_is_refused() -> None:
    code = """
import app, semel
semel_app = semel.Semel(__import__("os").environ["SEMEL_STORE"])
for cents in (2100, 9900):
    try:
        app.pay_back(app.Wish(order_id="order-1", version=1, cents=cents))
    except semel.SemelError as error:
        print(error.code)
[question] = semel_app.approvals()
try:
    question.approve(actor="Support-Bot")
except semel.FourEyes as error:
    print(error.code)
question.approve(actor="ann")
print(app.pay_back(app.Wish(order_id="order-1", version=1, cents=2100)).amount)
semel_app.close()
"""
    with on_stage_of(REFUND_APPROVAL) as stage:
        assert stage.script(code).split() == ["held", "input_changed", "four_eyes", "2100"]
        assert REFUND_APPROVAL.objects(stage) == {("order-1", 2100): 1}


FAKETIME = [
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"),
    Path("/usr/lib64/faketime/libfaketime.so.1"),
]


def at(time_of_day: str) -> dict[str, str]:
    """The environment of a process that begins at this time. Only the wall clock is moved."""
    return {
        "LD_PRELOAD": str(next(path for path in FAKETIME if path.exists())),
        "FAKETIME": f"@2026-11-16 {time_of_day}",
        "DONT_FAKE_MONOTONIC": "1",
        "TZ": "UTC",
    }


def test_req_r7_two_processes_see_three_o_clock_and_there_is_one_report() -> None:
    yesterday, tick = "2026-11-15T02:00:00Z", "2026-11-16T02:00:00Z"
    with on_stage_of(NIGHTLY_REPORT) as stage:
        evening = stage.start(yesterday, env=at("00:00:00"))
        assert evening.end() == 0, evening.words()
        # Right before three o'clock in Rome; on a slow machine after it, which is made up for.
        servers = [stage.start("serve", env=at("01:59:58")) for _ in "12"]
        until(lambda: len(NIGHTLY_REPORT.objects(stage)) == 2, timeout=60)
        # A person who helps out gets the run of the tick.
        helper = stage.start(tick, env=at("02:01:00"))
        assert helper.end() == 0, helper.words()
        [one, other] = helper.outcome()[tick]
        assert one == other
        for server in servers:
            assert server.pid is not None
            os.kill(server.pid, signal.SIGTERM)
            assert server.code() == 0, server.words()
        assert NIGHTLY_REPORT.objects(stage) == {
            f"/pages/report/{day}": 1 for day in (yesterday, tick)
        }
        [schedule] = items(stage, "schedules")
        assert (schedule["fired"], schedule["skipped"]) == (1, 0)
        runs = {run["key"] for run in items(stage, "runs")}
        assert runs == {f"nightly,{day}" for day in (yesterday, tick)}
        stage.verify()
