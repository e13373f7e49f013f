"""How the tests of the classifier get their errors: by letting them happen."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from contextvars import Context, copy_context
from typing import Any

from semel import NotApplied, Refused, _wire, classify
from stand_ins import FullBacklog, Provider, refusing_url

# What every client meets, and what that proves. The words are those of `stand_ins.Provider`.
STATUSES = {
    "400": "refused",
    "401": "not applied",
    "402": "refused",
    "403": "not applied",
    "404": "refused",
    "408": "unknown",
    "409": "unknown",
    "410": "refused",
    "422": "refused",
    "425": "unknown",
    "429": "unknown",
    "500": "unknown",
    "503": "unknown",
    "529": "unknown",
}
CUTS = {"slam": "unknown", "reset": "unknown", "ok-reset": "unknown", "ok-stall": "unknown"}
ANSWERS = {**STATUSES, **CUTS}


_patience_s = [10.0]


def patience_s() -> float:
    """How long a call may wait: long, unless the test is about waiting in vain."""
    return _patience_s[-1]


@contextmanager
def in_a_hurry() -> Generator[None, None, None]:
    """For a wait that has to end by itself."""
    _patience_s.append(0.3)
    try:
        yield
    finally:
        _patience_s.pop()


_KEPT = 8
"""Errors hold the connections of their clients open, so not all are kept."""
_attempts: dict[int, tuple[BaseException, Context]] = {}


def happened(call: Callable[[], Any]) -> BaseException:
    """The error that `call` ends with, as the only doing of an attempt."""
    attempt = copy_context()
    attempt.run(_wire.begin, None, is_async=False)
    try:
        returned = attempt.run(call)
    except Exception as error:
        _attempts[id(error)] = error, attempt
        while len(_attempts) > _KEPT:
            del _attempts[next(iter(_attempts))]
        return error
    raise AssertionError(f"no error, but {returned!r}")


def verdict(exc: BaseException, **options: Any) -> str:
    """What the classifier says about it."""
    _, attempt = _attempts.get(id(exc)) or (exc, copy_context())
    proof = attempt.run(lambda: classify.error(exc, **options))
    if isinstance(proof, NotApplied):
        return "not applied"
    if isinstance(proof, Refused):
        return "refused"
    assert proof is None
    return "unknown"


def at_provider(word: str, call: Callable[[str], Any], **options: Any) -> str:
    """The verdict on a call to a provider with this script."""
    hurry = in_a_hurry() if "stall" in word else nullcontext()
    with hurry, Provider(*word.split("; ")) as provider:
        return verdict(happened(lambda: call(provider.url)), **options)


def at_nobody(call: Callable[[str], Any], **options: Any) -> str:
    """The verdict on a call to a port where nobody listens."""
    return verdict(happened(lambda: call(refusing_url())), **options)


def at_full_backlog(call: Callable[[str], Any], **options: Any) -> str:
    """The verdict on a call to a server that does not accept: the connect times out."""
    with in_a_hurry(), FullBacklog() as url:
        return verdict(happened(lambda: call(url)), **options)
