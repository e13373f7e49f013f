"""Intents from an outbox obey the declaration of their effect, as a call does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import World, until
from postgres_kit import Ledger
from semel import Worker, approval, effect

OUTSIDE = World()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger in a schema of its own, with its workers."""
    OUTSIDE.calls.clear()
    ledger = Ledger()
    yield ledger
    ledger.drop()


@effect("ask-first", key="{id}", approval=approval(note="read it"))
def ask_first(id: str) -> int:
    """A person decides on it."""
    OUTSIDE.do(id)
    return 1


@effect("own-key", key="{id}", downstream_key="order:{id}")
def own_key(id: str) -> int:
    """Its provider knows it by a key of the author's."""
    OUTSIDE.do(id)
    return 1


@effect("four-eyes", key="{id}", approval=approval(four_eyes=True, requested_by="{who}"))
def four_eyes(id: str, who: str) -> int:
    """Its requester may not decide."""
    OUTSIDE.do(id)
    return 1


@effect("free", key="{id}")
def free(id: str) -> int:
    """Nothing but a key."""
    OUTSIDE.do(id)
    return 1


def intend(ledger: Ledger, action: str, key: str) -> None:
    """Writes an intent as a user's own transaction does."""
    ledger.execute(f"SELECT intend('{action}', '{key}', '{{\"id\": \"{key}\"}}'::json)")


def test_req_a3_an_intent_from_the_outbox_waits_for_its_approval(ledger: Ledger) -> None:
    Worker(ledger.app, effects=[ask_first, free]).start()
    intend(ledger, "ask-first", "1")
    asked = until(lambda: ledger.app.approvals())
    intend(ledger, "free", "2")
    until(lambda: OUTSIDE.calls == ["2"])  # the handlers had their turn, and sent nothing else
    assert asked[0].note == "read it"
    asked[0].approve("yes", actor="ann")
    until(lambda: OUTSIDE.calls == ["2", "1"])


@pytest.mark.parametrize(
    ("target", "part"), [(own_key, "downstream_key="), (four_eyes, "requested_by=")]
)
def test_an_intent_that_needs_a_calls_arguments_is_refused_and_says_why(
    ledger: Ledger, target: Any, part: str
) -> None:
    Worker(ledger.app, effects=[target]).start()
    intend(ledger, target.action, "1")
    rows = "SELECT refused_code, refused_text FROM outbox WHERE refused_code IS NOT NULL"
    [(code, text)] = until(lambda: ledger.execute(rows))
    assert code == "terms_invalid"
    assert part in text
    assert "call the effect instead" in text
    assert OUTSIDE.calls == []
