"""Errors of botocore, hence of boto3."""

from __future__ import annotations

from typing import Any

from semel.classify._proof import Proof, frames_of, names, not_applied, of_status, refused

# Raised before a request exists: what is wrong is in the arguments, or in the configuration.
_BAD_ARGUMENTS = {"ParamValidationError", "UnknownParameterError", "MissingParametersError"}
_NOT_CONFIGURED = {"NoCredentialsError", "PartialCredentialsError", "NoRegionError"}
# The connection was not made.
_BEFORE_SENDING = {"EndpointConnectionError", "ConnectTimeoutError"}

# Rejected before the service looked at the request, and can be mended. AWS sends some with 400.
_CREDENTIALS = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
}
# The whole write was called off because another one was under way.
_CALLED_OFF = {"TransactionConflictException"}
# Parts of codes that come with 400 and are no refusal. A token that is in use or was used with
# other arguments points to an earlier send. Too many requests is what a 429 is: services pass it
# on from others they have called, half way through their own work.
_NO_PROOF = {
    "Idempot",
    "InProgress",
    "Internal",
    "LimitExceeded",
    "SlowDown",
    "Throttl",
    "ThroughputExceeded",
    "Timeout",
    "TooManyRequests",
    "Unavailable",
}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of botocore proves."""
    kinds = names(exc)
    if kinds & _BAD_ARGUMENTS:
        return refused(exc)
    if kinds & _NOT_CONFIGURED:
        return not_applied(exc)
    if kinds & _BEFORE_SENDING and (single_try or _first_try(exc)):
        return not_applied(exc)
    if "ClientError" in kinds:
        return _answer(exc, single_try)
    return None


def _answer(exc: Any, single_try: bool) -> Proof | None:
    about = exc.response.get("ResponseMetadata", {})
    # A condition that failed on the second try may have been met by the first.
    if not single_try and about.get("RetryAttempts") != 0:
        return None
    code = str(exc.response.get("Error", {}).get("Code", ""))
    if code in _CREDENTIALS or code in _CALLED_OFF:
        return not_applied(exc)
    if code == "TransactionCanceledException":
        return _canceled(exc)
    if any(part in code for part in _NO_PROOF):
        return None
    return of_status(exc, int(about["HTTPStatusCode"]))


def _canceled(exc: Any) -> Proof:
    """All or nothing, and it was nothing; final only if a condition did not hold."""
    reasons = exc.response.get("CancellationReasons", [])
    failed = any(reason.get("Code") == "ConditionalCheckFailed" for reason in reasons)
    return refused(exc) if failed else not_applied(exc)


def _first_try(exc: BaseException) -> bool:
    passed = frames_of(exc, "botocore.endpoint", "_send_request")
    return len(passed) == 1 and bool(passed[0].variables["attempts"] == 1)
