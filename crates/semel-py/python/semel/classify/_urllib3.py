"""Errors of urllib3, on which requests and botocore are built."""

from __future__ import annotations

import ssl
from typing import Any

from semel.classify._proof import Proof, frames, frames_of, names, not_applied

_BEFORE_SENDING = {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of urllib3 proves."""
    last = exc.reason if "MaxRetryError" in names(exc) else exc
    if not _before_sending(last):
        return None
    return not_applied(exc) if single_try or _all_before_sending(exc) else None


def earlier_tries_proven(history: Any) -> bool:
    """Whether all tries that a `Retry` remembers failed to connect."""
    return all(try_.error is not None and _before_sending(try_.error) for try_ in history)


def _before_sending(exc: Any) -> bool:
    kinds = names(exc)
    if kinds & _BEFORE_SENDING:
        return True
    if "ProxyError" in kinds:
        return _before_sending(exc.original_error)
    if "SSLError" in kinds:
        # Of all troubles with TLS only this one is bound to the handshake.
        return isinstance(exc.args[0], ssl.SSLCertVerificationError)
    return False


def _all_before_sending(exc: BaseException) -> bool:
    # requests lets some errors through as they are, also those behind a redirect it followed.
    if len(frames_of(exc, "requests.sessions", "send")) > 1:
        return False
    # The error names the last try only; the earlier ones are with the counter that gave up.
    counters = [it.variables["self"] for it in frames_of(exc, "urllib3.util.retry", "increment")]
    if counters:
        return all(earlier_tries_proven(counter.history) for counter in counters)
    # A bare connection, without a pool above it that could have tried before.
    return not any(frame.function == "urlopen" for frame in frames(exc))
