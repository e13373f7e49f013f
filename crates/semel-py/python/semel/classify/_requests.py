"""Errors of requests."""

from __future__ import annotations

from typing import Any

from semel.classify import _urllib3
from semel.classify._proof import Proof, all_proven, frames_of, names, not_applied, of_status

# What is wrong with the request itself shows before a connection is opened.
_BAD_REQUEST = {"InvalidHeader", "InvalidSchema", "InvalidURL", "MissingSchema"}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of requests proves."""
    kinds = names(exc)
    if "HTTPError" in kinds:
        return _status(exc, single_try)
    # A redirect is followed from within the first send, and shows as a second one in there.
    sends = len(frames_of(exc, "requests.sessions", "send"))
    if kinds & _BAD_REQUEST and sends <= 1:
        return not_applied(exc)
    if sends == 1 or single_try:
        return _reason_below(exc, single_try)
    return None


def _status(exc: Any, single_try: bool) -> Proof | None:
    response = exc.response
    if response is None:
        return None
    if not single_try and not (
        all_proven(earlier.status_code for earlier in response.history)
        and _urllib3.earlier_tries_proven(response.raw.retries.history)
    ):
        return None
    return of_status(exc, response.status_code)


def _reason_below(exc: Any, single_try: bool) -> Proof | None:
    # requests passes the error of urllib3 as its first argument.
    below = exc.args[0] if exc.args else None
    if not isinstance(below, BaseException) or not type(below).__module__.startswith("urllib3"):
        return None
    return not_applied(exc) if _urllib3.proof(below, single_try) is not None else None
