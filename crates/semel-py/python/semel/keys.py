"""Ready keys and receipts for the four most common effects.

Each recipe names the subject and the specific event, so that a retry finds its first receipt and a
new revision is a new intent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import recipe


def ticket(case_id: str, action_name: str) -> list[str]:
    """A ticket: one per case and action."""
    return recipe("ticket", (case_id, action_name, ""))


def message(intent_id: str, recipient: str, version: str) -> list[str]:
    """A message: one per intent, recipient and version."""
    return recipe("message", (intent_id, recipient, version))


def publish(content_id: str, destination: str, revision: str) -> list[str]:
    """A publication: one per content, destination and revision."""
    return recipe("publish", (content_id, destination, revision))


def record(record_id: str, action_name: str, intent_version: str) -> list[str]:
    """A change of a record: one per record, action and version of the intent."""
    return recipe("record", (record_id, action_name, intent_version))


@dataclass(frozen=True)
class TicketReceipt:
    """What is known after a ticket was created."""

    status: str
    """The ticket's status as the provider words it."""
    ticket_id: str
    """The provider's id."""
    created_at: str
    """RFC 3339."""


@dataclass(frozen=True)
class MessageReceipt:
    """What is known after a message was sent."""

    provider_response: Any
    """The provider's answer as it came."""
    sent_at: str
    """RFC 3339."""
    final_state: str
    """The last known state of the delivery, as the provider words it."""


@dataclass(frozen=True)
class PublishReceipt:
    """What is known after something was published."""

    url: str
    """Where it can be read."""
    revision_hash: str
    """Digest of the published revision."""
    published_at: str
    """RFC 3339."""


@dataclass(frozen=True)
class RecordReceipt:
    """What is known after a record was changed."""

    old_value: Any
    """The value that was replaced; None when there was none."""
    new_value: Any
    """The value that stands now."""
    commit_result: str
    """What the destination said to the write."""
    trace_id: str
    """Finds the change in the destination's traces."""
