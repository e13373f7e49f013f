"""Errors of aiohttp."""

from __future__ import annotations

from typing import Any

from semel.classify._proof import Proof, all_proven, frames_of, names, not_applied, of_status

_BEFORE_SENDING = {
    "ClientConnectorCertificateError",
    "ClientConnectorError",
    "ClientConnectorSSLError",
    "ConnectionTimeoutError",
}
_BAD_URL = {"InvalidUrlClientError", "NonHttpUrlClientError"}
# aiohttp repeats these in silence when a connection it kept turns out to be dead, and a dead
# connection does not say how far the first copy got.
_REPEATED_IN_SILENCE = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of aiohttp proves."""
    kinds = names(exc)
    if "ClientResponseError" in kinds:
        return _status(exc, single_try)
    if kinds & _BAD_URL and "RedirectClientError" not in kinds:
        return not_applied(exc)
    if kinds & _BEFORE_SENDING and (single_try or _first_request(exc)):
        return not_applied(exc)
    return None


def _status(exc: Any, single_try: bool) -> Proof | None:
    # With `raise_for_status=True` the error is raised before it is told about redirects.
    on_the_way = [
        response
        for frame in frames_of(exc, "aiohttp.client", "_request")
        for response in frame.variables["history"]
    ]
    earlier = [response.status for response in [*exc.history, *on_the_way]]
    repeated = exc.request_info.method in _REPEATED_IN_SILENCE
    if not all_proven(earlier) or (repeated and not single_try):
        return None
    return of_status(exc, exc.status)


def _first_request(exc: BaseException) -> bool:
    passed = [it.variables for it in frames_of(exc, "aiohttp.client", "_request")]
    return bool(passed) and all(
        all_proven(response.status for response in variables["history"])
        # A middleware may have sent before. Older versions have none.
        and not ("middlewares" in variables and variables["effective_middlewares"])
        and (
            variables["method"] not in _REPEATED_IN_SILENCE
            or variables["retry_persistent_connection"] is True  # still to be used
        )
        for variables in passed
    )
