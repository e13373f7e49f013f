"""What errors of botocore prove; each is let happen, by the real client of boto3."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from classify_kit import at_full_backlog, at_nobody, at_provider, happened, patience_s, verdict
from stand_ins import Provider, refusing_url

KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
ITEM: Any = {"id": {"S": "1"}}


@pytest.fixture(autouse=True)
def nobodys_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of whoever runs the tests, and no waits between two tries."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


def put(url: str, tries: int = 1, **options: Any) -> None:
    limits = Config(
        retries={"total_max_attempts": tries, "mode": "standard"},
        connect_timeout=patience_s(),
        read_timeout=patience_s(),
    )
    keys = options.pop("keys", KEYS)
    client: Any = boto3.Session(**keys).client(
        "dynamodb", region_name="eu-west-1", endpoint_url=url, config=limits
    )
    client.put_item(TableName="tickets", Item=ITEM, **options)


def put_twice(url: str) -> None:
    put(url, tries=2)


def at_dynamodb(status: int, code: str, **more: Any) -> str:
    with Provider(str(status)) as provider:
        provider.error_body = {"__type": f"com.amazonaws.dynamodb#{code}", "message": "no", **more}
        return verdict(happened(lambda: put(provider.url)))


# Status, error code, and what that proves when it answers the only try.
CODES: list[tuple[int, str, str]] = [
    (400, "ValidationException", "refused"),
    (400, "ResourceNotFoundException", "refused"),
    (400, "ConditionalCheckFailedException", "refused"),
    (400, "AccessDeniedException", "not applied"),
    (403, "AccessDeniedException", "not applied"),
    (400, "ExpiredTokenException", "not applied"),
    (400, "UnrecognizedClientException", "not applied"),
    (403, "InvalidSignatureException", "not applied"),
    (400, "TransactionConflictException", "not applied"),
    (400, "ThrottlingException", "unknown"),
    (400, "ProvisionedThroughputExceededException", "unknown"),
    (400, "RequestLimitExceeded", "unknown"),
    (429, "TooManyRequestsException", "unknown"),
    (503, "SlowDown", "unknown"),
    (400, "TransactionInProgressException", "unknown"),
    (400, "IdempotentParameterMismatchException", "unknown"),
    (400, "RequestTimeout", "unknown"),
    (412, "PreconditionFailed", "refused"),
    (409, "ConflictException", "unknown"),
    (500, "InternalServerError", "unknown"),
]


@pytest.mark.parametrize(("status", "code", "want"), CODES)
def test_what_an_error_code_proves(status: int, code: str, want: str) -> None:
    assert at_dynamodb(status, code) == want


def test_a_transaction_that_was_canceled_is_final_only_for_a_condition() -> None:
    for reason, want in {"ConditionalCheckFailed": "refused", "Conflict": "not applied"}.items():
        reasons = [{"Code": "None"}, {"Code": reason}]
        got = at_dynamodb(400, "TransactionCanceledException", CancellationReasons=reasons)
        assert got == want


@pytest.mark.parametrize("word", ["slam", "reset", "ok-reset", "ok-stall"])
def test_a_cut_proves_nothing(word: str) -> None:
    assert at_provider(word, put) == "unknown"


def test_what_never_left_this_machine_was_not_applied() -> None:
    assert at_nobody(put) == "not applied"
    assert at_full_backlog(put) == "not applied"
    assert verdict(happened(lambda: put("http://nobody.invalid"))) == "not applied"
    assert verdict(happened(lambda: put(refusing_url(), keys={}))) == "not applied"
    assert verdict(happened(lambda: put(refusing_url(), Nonsense=1))) == "refused"


def test_after_more_than_one_try_an_error_proves_nothing() -> None:
    assert at_nobody(put_twice) == "unknown"
    assert at_provider("last ok-reset", put_twice) == "unknown"
    # The condition may have failed because the first try has met it.
    assert at_provider("ok-reset; 400", put_twice) == "unknown"
    assert at_provider("400", put_twice) == "refused"


def test_the_word_of_the_caller_counts() -> None:
    assert at_nobody(put_twice, single_try=True) == "not applied"
