"""What a person sees when something goes wrong: which effect, why, and what to do next."""

from __future__ import annotations

import logging
import sys

import pytest
from conftest import World
from semel import InDoubt, Semel, effect

SECRET_TEXT = "the card 4111 was declined"


@effect("mail", key=["{customer}", "{id}"])
def mail(customer: str, id: str) -> str:
    raise ConnectionResetError(SECRET_TEXT)


def test_a_doubt_names_its_effect_its_cause_and_what_to_do(app: Semel, world: World) -> None:
    for _ in ("first", "told again"):
        with pytest.raises(InDoubt) as caught:
            mail("ada", "42")
        error = caught.value
        assert str(error).startswith("mail/ada,42: ")
        assert error.hint
        assert "semel effects" in error.hint
        if sys.version_info >= (3, 11):
            assert any(error.hint in note for note in error.__notes__)


def test_the_exception_of_the_function_is_the_cause(app: Semel) -> None:
    with pytest.raises(InDoubt) as caught:
        mail("ada", "42")
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert str(caught.value.__cause__) == SECRET_TEXT


def test_a_failed_attempt_is_one_warning_without_payload(
    app: Semel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "semel"), pytest.raises(InDoubt):
        mail("ada", "42")
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warnings == ["mail/ada,42: attempt 1 raised ConnectionResetError and counts as unknown"]
    assert SECRET_TEXT not in caplog.text
