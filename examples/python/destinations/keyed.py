"""Idempotency keys as providers keep them: one stored answer for each key."""

from __future__ import annotations

import hashlib
import threading

from destinations.http import Answer, Request


class KeyedAnswers:
    """Remembers which keys are being worked on, and the answers of those that are done."""

    def __init__(self, mismatch: Answer, in_progress: Answer) -> None:
        self._mismatch = mismatch
        self._in_progress = in_progress
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}
        self._answers: dict[str, Answer] = {}

    def admit(self, request: Request) -> Answer | None:
        """The answer to a repeat, or `None`: the key is new and now being worked on."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return None
        digest = hashlib.sha256(request.line.encode() + b"\n" + request.body).hexdigest()
        with self._lock:
            if key not in self._digests:
                self._digests[key] = digest
                return None
            if self._digests[key] != digest:
                return self._mismatch
            return self._answers.get(key, self._in_progress)

    def leave(self, request: Request, answer: Answer | None) -> None:
        """The work is over. Without an answer nothing was done, and the key is free again."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return
        with self._lock:
            if answer is None:
                self._digests.pop(key, None)
            else:
                self._answers[key] = answer
