"""`semel check` on the examples, and on their twins that nothing protects.

Two examples are checked completely, some with a few cases each: the most telling come first. With
SEMEL_CHECK_ALL=1 all seventeen are checked completely, which takes some minutes."""

from __future__ import annotations

import os

import pytest
from check_catalogue import CHECKED, Checked

COMPLETE = {"stripe_charge", "refund_approval"}
SMALL_BUDGET = "4"
# The first cases are those that a careless workflow does not survive.
TWIN_BUDGET = "2"
IS_ALL = os.environ.get("SEMEL_CHECK_ALL") == "1"

FEW = {"triage", "saga_order", "nurture_mail", "long_agent", "typeform_hubspot", *COMPLETE}
CHOSEN = [one for one in CHECKED if IS_ALL or one.name in FEW]

each_example = pytest.mark.parametrize("checked", CHOSEN, ids=lambda checked: checked.name)


@each_example
def test_a_good_example_holds_its_promise_in_every_case(checked: Checked) -> None:
    is_complete = IS_ALL or checked.name in COMPLETE
    report = checked.check(None if is_complete else SMALL_BUDGET)
    print(report)
    report.assert_ok()
    assert report.outcomes.keys() <= {"once", "in_doubt"}
    assert report.left_out == 0 or not is_complete


@each_example
def test_its_unprotected_twin_does_it_twice(checked: Checked) -> None:
    report = checked.check_twin(None if IS_ALL else TWIN_BUDGET)
    print(report)
    assert not report.is_ok
    assert "twice" in report.outcomes
    failed = [verdict for verdict in report.verdicts if verdict["outcome"] == "twice"]
    assert all("--only" in verdict["reproduce"] for verdict in failed)
