"""What the clients that are made safe share: which requests write, and under which key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from semel._errors import WriteOutsideEffect
from semel._intent import current
from semel._native import classify_status
from semel._wire import Calling

#: The header most providers read the key from.
DEFAULT_HEADER = "Idempotency-Key"

# The methods RFC 9110 calls safe. Any other, a made-up one included, may change something.
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_write(method: str) -> bool:
    """Whether a request with this method may change something at the other end."""
    return method.upper() not in _SAFE_METHODS


def key_to_add(
    method: str, url: str, headers: Mapping[str, str | bytes], header: str
) -> str | None:
    """The key to set as `header` on this write, or None if the caller brought his own.

    Raises `WriteOutsideEffect` where no effect is running, before anything is sent: a write that
    nobody keeps a receipt of cannot be repeated safely.
    """
    intent = current()
    if intent is None:
        wish = f"{method.upper()} {_without_secrets(url)}"
        raise WriteOutsideEffect(f"{wish} outside of an effect; nothing was sent")
    if header in headers:
        # His own stands. Where it is the intent's, the provider gets to see it all the same.
        own = headers[header]
        intent.is_downstream_key(own.decode("latin-1") if isinstance(own, bytes) else own)
        return None
    # Read last and only here: reading it tells the ledger that the provider gets to see it.
    return intent.downstream_key


class Sending(Calling):
    """Around one request. It vouches for what changed nothing: a read, and a write whose answer,
    like all answers before it, says that nothing happened."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._is_read = not is_write(method)

    def __enter__(self) -> Sending:
        super().__enter__()
        if self._is_read:
            self.vouch()
        return self

    def answered(self, result: Any) -> None:
        """The client returned this response."""
        super().answered(result)
        statuses = [it.status_code for it in (*result.history, result)]
        if all(classify_status(status) in ("not_applied", "refused") for status in statuses):
            self.vouch()


def _without_secrets(url: str) -> str:
    # Passwords and tokens travel in front of the host and in the query.
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def missing(client: str, error: ModuleNotFoundError) -> ImportError:
    """The error that says which package to install; the client's own troubles stay as they are."""
    if error.name != client:
        return error
    return ImportError(f"semel.{client} needs the {client} package: pip install {client}")
