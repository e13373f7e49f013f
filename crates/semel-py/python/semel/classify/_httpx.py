"""Errors of httpx, and of httpx2, which is its like."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from semel.classify._proof import Proof, all_proven, frames, names, not_applied, of_status

# The connection was not made, or none was tried.
_BEFORE_SENDING = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
_PACKAGES = ("httpx", "httpx2")


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of httpx proves."""
    kinds = names(exc)
    if "HTTPStatusError" in kinds:
        earlier = [response.status_code for response in exc.response.history]
        return of_status(exc, exc.response.status_code) if all_proven(earlier) else None
    if kinds & _BEFORE_SENDING and (single_try or _first_request(exc)):
        return not_applied(exc)
    return None


def _first_request(exc: BaseException) -> bool:
    """Whether all that was sent before, by a redirect or by an auth flow, is proven harmless."""
    passed = list(frames(exc))
    for frame, inner in pairwise(passed):
        if _package(frame.module) not in _PACKAGES:
            continue
        if frame.function == "_send_handling_redirects":
            earlier = [response.status_code for response in frame.variables["history"]]
            if not all_proven(earlier):
                return False
        elif frame.function == "_send_single_request":
            # The client's own transport tries again only what did not connect. One that somebody
            # else wrote may have sent before.
            return _package(inner.module) in _PACKAGES
    return False


def _package(module: str) -> str:
    return module.partition(".")[0]
