"""A part of Stripe's API: payment intents and refunds, with Stripe's rules for idempotency keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request
from destinations.keyed import KeyedAnswers


def _error(status: int, kind: str, message: str) -> Answer:
    return Answer(status, {"error": {"type": kind, "message": message}})


class StripeApi(HttpDestination):
    """Same key and parameters: the first answer. Other parameters: 400. In progress: 409."""

    name = "stripe"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._intents: dict[str, dict[str, Any]] = {}
        self._refund_count = 0
        self._keyed = KeyedAnswers(
            mismatch=_error(
                400,
                "idempotency_error",
                "Keys for idempotent requests can only be used with the same parameters.",
            ),
            in_progress=_error(
                409,
                "idempotency_error",
                "There is currently another in-progress request using this key.",
            ),
        )

    def admit(self, request: Request) -> Answer | None:
        repeated = self._keyed.admit(request) if request.method == "POST" else None
        if repeated is None or repeated.status >= 400:
            return repeated
        return Answer(repeated.status, repeated.body, {"idempotent-replayed": "true"})

    def leave(self, request: Request, answer: Answer | None) -> None:
        self._keyed.leave(request, answer)

    def apply(self, request: Request) -> Answer:
        if "authorization" not in request.headers:
            return _error(401, "invalid_request_error", "You did not provide an API key.")
        if request.line == "POST /v1/payment_intents":
            return self._charge(request)
        if request.line == "POST /v1/refunds":
            return self._refund(request)
        found = self._intents.get(request.parts[-1]) if request.method == "GET" else None
        return Answer(200, found) if found else _error(404, "invalid_request_error", "No such URL.")

    def _charge(self, request: Request) -> Answer:
        form = request.form()
        if not form.get("amount", "").isdigit() or "currency" not in form:
            return _error(400, "invalid_request_error", "Invalid amount or currency.")
        if form.get("payment_method") == "pm_card_chargeDeclined":
            return _error(402, "card_error", "Your card was declined.")
        intent = {
            "id": f"pi_{len(self._intents) + 1}",
            "object": "payment_intent",
            "amount": int(form["amount"]),
            "currency": form["currency"],
            "status": "succeeded",
            "metadata": {"order_id": form.get("metadata[order_id]", "")},
        }
        self._intents[str(intent["id"])] = intent
        key = request.headers.get("idempotency-key")
        self.book.applied("charge", order=form.get("metadata[order_id]"), key=key, id=intent["id"])
        return Answer(200, intent)

    def _refund(self, request: Request) -> Answer:
        form = request.form()
        if not form.get("amount", "").isdigit() or "payment_intent" not in form:
            return _error(400, "invalid_request_error", "Invalid amount or payment.")
        self._refund_count += 1
        refund = {
            "id": f"re_{self._refund_count}",
            "object": "refund",
            "amount": int(form["amount"]),
            "payment_intent": form["payment_intent"],
            "status": "succeeded",
        }
        self.book.applied(
            "refund", payment=form["payment_intent"], amount=refund["amount"], id=refund["id"]
        )
        return Answer(200, refund)
