"""AWS Lambda Powertools' idempotency over a Semel server.

    store = SemelPersistenceLayer("https://semel.example.com", token, action="charge")

    @idempotent_function(data_keyword_argument="order", persistence_store=store, config=config)
    def charge(order: dict) -> dict: ...

Powertools decides what names a call and hands it here; the server decides who may run. Each call
holds a fence, so a worker that comes too late changes nothing: neither its result nor its failure
touches the record of the one that took over.

Powertools deletes the record of a function that raised, as if that proved that nothing happened.
Here the exception is judged by `semel.classify`. With proof the next call runs. Without it the
contract decides: `harmless` and a native key run again, as Powertools does with its own stores;
`at_most_once`, the default, waits for a person.
"""

from __future__ import annotations

import datetime
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping
from typing import Any

from semel import _wire, classify
from semel._errors import Refused, SemelError

try:
    from aws_lambda_powertools.utilities.idempotency.exceptions import (
        IdempotencyItemAlreadyExistsError,
        IdempotencyItemNotFoundError,
        IdempotencyValidationError,
    )
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
    from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import (
        STATUS_CONSTANTS,
        DataRecord,
    )
except ModuleNotFoundError as error:
    if error.name != "aws_lambda_powertools":
        raise
    text = "semel.powertools needs Powertools: pip install aws-lambda-powertools"
    raise ImportError(text) from error

__all__ = ["SemelPersistenceLayer"]

_TRIES = 3
_PAUSE_S = 0.2


class SemelPersistenceLayer(BasePersistenceLayer):
    """A persistence layer of Powertools whose records are effects of a Semel server.

    `action` names the effect in the ledger. `contract` is what the HTTP API takes: a name, or
    `{"native_key": {"retention": "24h"}}`. `lease` is how long a function may take before others
    no longer believe that it runs. `hold` is how long a call that meets another one waits for its
    result; the default refuses at once, as Powertools does.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        action: str,
        contract: str | Mapping[str, Any] = "at_most_once",
        lease: str = "5m",
        hold: str = "0ms",
        timeout_s: float = 60,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._url = url.rstrip("/")
        self._token = token
        self._action = action
        self._contract = contract
        self._lease = lease
        self._hold = hold
        self._timeout_s = timeout_s
        # A call stays in its thread from begin to settle. Another call of the same key, in
        # another thread, has another fence.
        self._mine = threading.local()

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """The function raised: what that proves is said to the ledger."""
        self._mine.exception = exception
        try:
            super().delete_record(data=data, exception=exception)
        finally:
            self._mine.exception = None

    def _put_record(self, data_record: DataRecord) -> None:
        key = data_record.idempotency_key
        # By this a caller whose answer was lost gets its own attempt back.
        attempt_id = uuid.uuid4().hex
        asked: dict[str, Any] = {
            "action": self._action,
            "key": key,
            "input": {"payload_hash": data_record.payload_hash},
            "contract": self._contract,
            "lease": self._lease,
            "deadline": self._lease,
            "window": f"{self.expires_after_seconds}s",
            "attempt_id": attempt_id,
            "hold": self._hold,
        }
        try:
            begun = self._ask("POST", "/v1/effects/begin", asked)
        except SemelError as refused:
            raise self._in_words_of_powertools(refused, key) from refused
        outcome = begun["outcome"]
        if outcome == "attempt":
            self._fences()[key] = begun["fence"], _wire.current()
            _wire.begin(None, is_async=False)  # from here on the function runs
        elif outcome == "replay":
            raise IdempotencyItemAlreadyExistsError(
                old_data_record=_completed(key, begun["receipt"], data_record.payload_hash)
            )
        else:
            raise Refused(str(begun.get("reason", outcome)))

    def _in_words_of_powertools(self, refused: SemelError, key: str) -> Exception:
        if refused.code == "input_changed":
            return IdempotencyValidationError("Payload does not match stored record for this key.")
        if refused.code == "in_progress":
            running = DataRecord(idempotency_key=key, status=STATUS_CONSTANTS["INPROGRESS"])
            return IdempotencyItemAlreadyExistsError(old_data_record=running)
        return refused

    def _update_record(self, data_record: DataRecord) -> None:
        self._settle(data_record, {"receipt": json.loads(data_record.response_data)})

    def _delete_record(self, data_record: DataRecord) -> None:
        exception = getattr(self._mine, "exception", None)
        proof = None if exception is None else classify.error(exception)
        reason = repr(exception)[:500]
        if proof is None:
            self._settle(data_record, {"unknown": True, "reason": reason})
        else:
            # Powertools knows no failure for good: whoever calls again may try again.
            self._settle(data_record, {"not_applied": True, "reason": reason})

    def _settle(self, data_record: DataRecord, result: Mapping[str, Any]) -> None:
        key = data_record.idempotency_key
        # Without a fence nothing was begun here, so there is nothing to say.
        begun = self._fences().pop(key, None)
        if begun is None:
            return
        fence, before = begun
        _wire.end(before)
        asked = {"action": self._action, "key": key, "fence": fence, "result": result}
        try:
            self._ask("POST", "/v1/effects/settle", asked)
        except SemelError as refused:
            # Too late: another call has taken over, and its word stands.
            if refused.code != "stale_fence" or "receipt" in result:
                raise

    def _get_record(self, idempotency_key: str) -> DataRecord:
        query = urllib.parse.urlencode({"action": self._action, "key": idempotency_key})
        items = self._ask("GET", f"/v1/effects?{query}")["items"]
        if not items:
            raise IdempotencyItemNotFoundError
        if items[0]["state"] == "done":
            return _completed(idempotency_key, items[0]["receipt"], "")
        return DataRecord(idempotency_key=idempotency_key, status=STATUS_CONSTANTS["INPROGRESS"])

    def _fences(self) -> dict[str, tuple[int, _wire.Wire | None]]:
        fences: dict[str, Any] | None = getattr(self._mine, "fences", None)
        if fences is None:
            fences = self._mine.fences = {}
        return fences

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Asks the server. Every request may be repeated, so a lost answer is asked for again."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(
            f"{self._url}{path}", data=data, headers=headers, method=method
        )
        for tries_left in reversed(range(_TRIES)):
            try:
                with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except urllib.error.HTTPError as refused:
                with refused:
                    if refused.code not in (429, 503) or not tries_left:
                        raise _problem(refused) from refused
            except OSError:
                if not tries_left:
                    raise
            time.sleep(_PAUSE_S)
        raise AssertionError("the last try returns or raises")


def _completed(key: str, receipt: object, payload_hash: str) -> DataRecord:
    # When it expires is the server's affair: it has just said that it does not.
    tomorrow = datetime.datetime.now(tz=datetime.timezone.utc) + datetime.timedelta(days=1)
    return DataRecord(
        idempotency_key=key,
        status=STATUS_CONSTANTS["COMPLETED"],
        expiry_timestamp=int(tomorrow.timestamp()),
        response_data=json.dumps(receipt),
        payload_hash=payload_hash,
    )


def _problem(refused: urllib.error.HTTPError) -> SemelError:
    try:
        said = json.load(refused)
        return SemelError(said["detail"], code=said["code"])
    except (ValueError, KeyError, TypeError):
        return SemelError(f"the server answered {refused.code}", code="internal")
