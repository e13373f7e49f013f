"""Errors of the system and of urllib."""

from __future__ import annotations

import socket
import ssl

from semel.classify._proof import Proof, frames_of, not_applied, of_status

# A connection that was refused, a name that was not found, a certificate that was not accepted:
# each ends before the first byte of a request. A reset or a timeout may come after the last.
BEFORE_SENDING = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)


def proof(exc: BaseException, single_try: bool) -> Proof | None:
    """What an `OSError` proves, urllib's among them."""
    if type(exc).__module__ == "urllib.error":
        return _urllib(exc, single_try)
    return not_applied(exc) if isinstance(exc, BEFORE_SENDING) else None


def _urllib(exc: BaseException, single_try: bool) -> Proof | None:
    if not single_try and not _first_request(exc):
        return None
    code = getattr(exc, "code", None)
    if isinstance(code, int):
        return of_status(exc, code)
    return not_applied(exc) if isinstance(getattr(exc, "reason", None), BEFORE_SENDING) else None


def _first_request(exc: BaseException) -> bool:
    # A redirect, and the repeat with credentials, open the next request from within the first.
    return len(frames_of(exc, "urllib.request", "open")) == 1
