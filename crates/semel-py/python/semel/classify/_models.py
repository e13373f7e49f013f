"""Errors of openai and anthropic, whose clients are built alike."""

from __future__ import annotations

from typing import Any

from semel.classify import _httpx
from semel.classify._proof import Proof, all_proven, frames, names, not_applied, of_status

# Both write into each request how often they have tried before.
_TRIED_BEFORE = "x-stainless-retry-count"
_CLIENTS = ("openai._base_client", "anthropic._base_client")


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of a model provider's client proves."""
    kinds = names(exc)
    if "APIStatusError" in kinds:
        return _status(exc, exc.response, single_try)
    if "APIConnectionError" in kinds and (single_try or _only_try(exc, exc.request)):
        # Both document the cause as the error of the HTTP client below.
        below = exc.__cause__
        if below is not None and _httpx.proof(below, single_try) is not None:
            return not_applied(exc)
    return None


def _status(exc: Any, response: Any, single_try: bool) -> Proof | None:
    if not all_proven(before.status_code for before in response.history):
        return None
    if not (single_try or _only_try(exc, response.request)):
        return None
    return of_status(exc, response.status_code)


def _only_try(exc: BaseException, request: Any) -> bool:
    return request.headers.get(_TRIED_BEFORE) == "0" and not _has_middleware(exc)


def _has_middleware(exc: BaseException) -> bool:
    """Whether code of the caller's wraps each request of the client: it may have sent before."""
    passed = (frame.variables.get("self") for frame in frames(exc) if frame.module in _CLIENTS)
    return any(getattr(client, "middleware", ()) for client in passed)
