"""Every example: alone, repeated, and with each fault of its destination."""

from __future__ import annotations

import json

import pytest
from destinations import Fault
from example_catalogue import CATALOGUE, TRIAGE, Example
from example_long_runs import LONG_RUNS
from example_stage import Stage, on_stage
from example_story import check_done, each, finish
from example_worker import Forked

ALL = [*CATALOGUE, *LONG_RUNS, TRIAGE]

each_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)


def faults(example: Example) -> list[Fault]:
    """What can go wrong with one write, as that destination would fail."""
    on = example.writes
    always = [
        Fault("reset", "after", on=on),
        Fault("reset", "before", on=on),
        Fault("stall", "before", on=on, seconds=0.3),
    ]
    if example.target == "smtp":
        return [*always, Fault("status", "before", on=on, status=451, times=2)]
    busy, broken = Fault("status", "before", on=on, status=429), Fault("status", "after", on=on)
    return [*always, busy, broken]


def writes(stage: Stage, example: Example) -> int:
    """How many writes have arrived at the destination that counts."""
    lines = stage[example.target].book.lines("arrived")
    return sum(example.writes.rstrip("$") in line["what"] for line in lines)


@each_example
def test_example_works_and_a_repeat_sends_nothing(example: Example) -> None:
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        first = stage.finish(*example.items)
        check_done(stage, example, first)
        sent = writes(stage, example)
        again = stage.finish(*example.items)
        check_done(stage, example, again)
        assert {name: two[0] for name, two in again.items()} == {
            name: two[0] for name, two in first.items()
        }
        assert writes(stage, example) == sent, "the repeat has written"


@each_example
def test_example_bears_every_fault_of_its_destination(example: Example) -> None:
    def play(fault: Fault) -> None:
        with on_stage(example.name, example.destinations, "sqlite", Forked) as stage:
            stage[example.target].faults.add(fault)
            doubts = finish(stage, example)
            print(f"{example.name}: {fault.kind} {fault.phase}, {doubts} doubts")

    each(faults(example), play)


def test_req_l19_a_payment_outside_of_an_effect_is_refused_and_nothing_is_sent() -> None:
    example = next(one for one in CATALOGUE if one.name == "stripe_charge")
    code = """
import app, semel
try:
    app.stripe.v1.payment_intents.create({"amount": 1, "currency": "eur"})
except semel.SemelError as error:
    print(error.code)
"""
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        assert stage.script(code).strip() == "write_outside_effect"
        assert stage.arrivals() == 0
        stage.finish(*example.items)
        keys = [line["key"] for line in stage["stripe"].book.lines("arrived")]
        assert len(keys) == len(set(keys)) == len(example.items), "one key for each order"
        assert None not in keys


def test_a_webhook_that_is_redelivered_after_a_timeout_starts_nothing_new() -> None:
    example = next(one for one in CATALOGUE if one.name == "typeform_hubspot")
    code = """
import app, json, semel
semel_app = semel.Semel(__import__("os").environ["SEMEL_STORE"])
first = app.webhook(semel_app, app.delivery_of("token-1"))
try:
    first.result(timeout=0.1)
except TimeoutError:
    again = app.webhook(semel_app, app.delivery_of("token-1"))
    print(json.dumps([first.id == again.id, first.attached, again.attached]))
    assert again.result() == first.result()
semel_app.close()
"""
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        stage["hubspot"].faults.add(Fault("stall", on=example.writes, seconds=1.0))
        assert json.loads(stage.script(code)) == [True, False, True]
        assert example.objects(stage) == {"token-1": 1}
        assert writes(stage, example) == 2, "one search, one create"


def test_the_id_in_a_webhook_reaches_the_contact() -> None:
    example = next(one for one in CATALOGUE if one.name == "typeform_hubspot")
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        outcome = stage.finish("token-7")
        [contact] = stage["hubspot"].book.lines("applied", what="contact")
        assert contact["typeform_token"] == "token-7"
        assert outcome["token-7"][0]["id"] == contact["id"]


def test_req_c7_two_processes_update_one_record_and_nothing_is_lost_or_doubled() -> None:
    example = next(one for one in CATALOGUE if one.name == "record_update")
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        # Slow enough that both have read the same version before one of them writes.
        stage["records"].faults.add(Fault("stall", on="PUT", times=4, seconds=0.2))
        workers = [stage.start("a-1", "a-2", "a-3"), stage.start("b-1", "b-2", "b-3")]
        assert [worker.end() for worker in workers] == [0, 0]
        written = stage["records"].book.lines("applied")
        assert [line["value"] for line in written] == [10, 20, 30, 40, 50, 60]
        assert len({line["by"] for line in written}) == 6
        asked = stage["records"].book.lines("arrived", what="PUT /records/account-7")
        assert len(asked) > len(written), "nobody was ever too late: this shows nothing"


def test_req_o6_an_agent_that_calls_again_after_a_timeout_gets_the_first_ticket() -> None:
    example = next(one for one in CATALOGUE if one.name == "agent_tools")
    with on_stage(example.name, example.destinations, "sqlite") as stage:
        stage["crm"].faults.add(Fault("stall", "after", seconds=1.0))
        worker = stage.start("case-1", env={"PATIENCE": "0.6"})
        assert worker.end() == 0
        answers = worker.outcome()["case-1"]
        assert answers[0] == "timed out"
        tickets = [json.loads(answer) for answer in answers if answer != "timed out"]
        assert len(tickets) == 2
        # The words of the first call, though the later ones used others.
        assert [ticket["subject"] for ticket in tickets] == ["The printer is on fire"] * 2
        assert example.objects(stage) == {"case-1": 1}
        assert writes(stage, example) == 1, "the second call waited for the first"
