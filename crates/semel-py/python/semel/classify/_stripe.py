"""Errors of stripe."""

from __future__ import annotations

from typing import Any

from semel._errors import NotApplied, Refused
from semel.classify._proof import EARLIER_TRIES, Proof, frames, names, not_applied, of_status

# Stripe answers these with 400, or has done so: the key was used before, perhaps with success;
# too many requests, which proves as little as a 429.
_NO_PROOF_CODES = {"idempotency_key_in_use", "idempotency_error", "rate_limit", "lock_timeout"}
# All tries of one POST carry one key, and what succeeded under it is answered with that success.
# So these two stand for every try. A 401 does not, and a 404 may be the repeat of a DELETE.
_HOLD_FOR_EVERY_TRY = {400, 402}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of stripe proves."""
    code = exc.http_status
    if code is not None:
        return _status(exc, code, single_try)
    if "APIConnectionError" in names(exc):
        return _connection(exc, single_try)
    return None


def _status(exc: Any, code: int, single_try: bool) -> Proof | None:
    kinds = names(exc)
    if kinds & {"IdempotencyError", "RateLimitError"} or exc.code in _NO_PROOF_CODES:
        return None
    found = of_status(exc, code)
    if isinstance(found, Refused) and code in _HOLD_FOR_EVERY_TRY:
        return found
    return found if single_try or _earlier_tries(exc) == "0" else None


def _connection(exc: Any, single_try: bool) -> Proof | None:
    if not (single_try or _earlier_tries(exc) == "0" or _first_of_its_loop(exc)):
        return None
    # stripe raises it from the error of the HTTP library below.
    below = exc.__cause__
    if below is None:
        return None
    from semel.classify import alone  # which imports this file

    return not_applied(exc) if isinstance(alone(below), NotApplied) else None


def _earlier_tries(exc: Any) -> str | None:
    """How many earlier tries may have landed; only `semel.stripe` counts them."""
    headers: Any = exc.headers
    return headers.get(EARLIER_TRIES) if headers else None


def _first_of_its_loop(exc: BaseException) -> bool:
    counts = [
        frame.variables["num_retries"]
        for frame in frames(exc)
        if frame.module == "stripe._http_client" and "num_retries" in frame.variables
    ]
    return bool(counts) and all(count == 0 for count in counts)
