"""The two proofs, and what to read them from: a status, a client's history, a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from semel._errors import NotApplied, Refused
from semel._native import classify_status

Proof: TypeAlias = NotApplied | Refused

#: Where `semel.stripe` notes how many earlier tries of the same call may have landed.
EARLIER_TRIES = "semel-earlier-tries"

# Long enough for a provider's message, short enough for a ledger row.
_REASON_CHARACTERS_MAX = 500


def not_applied(exc: BaseException) -> NotApplied:
    """Proof that nothing happened; a later try may succeed."""
    return NotApplied(_reason(exc))


def refused(exc: BaseException) -> Refused:
    """Proof that nothing happened, and that no repeat will change it."""
    return Refused(_reason(exc))


def status(code: int) -> str:
    """What an HTTP status proves: `receipt`, `not_applied`, `refused` or `unknown`."""
    return classify_status(code)


def of_status(exc: BaseException, code: int) -> Proof | None:
    """What an error proves that reports this status."""
    word = status(code)
    if word == "not_applied":
        return not_applied(exc)
    if word == "refused":
        return refused(exc)
    return None


def all_proven(codes: Iterable[int]) -> bool:
    """Whether each of these earlier answers proves that nothing happened then.

    The 401 that asks for credentials does; a redirect does not: the 303 after a POST says that
    the server has acted.
    """
    return all(status(code) in ("not_applied", "refused") for code in codes)


def names(exc: BaseException) -> set[str]:
    """The names of its class and all base classes."""
    return {base.__name__ for base in type(exc).__mro__}


class Frame:
    """One function that the exception passed through: its module, name and variables.

    A traceback is the only place where most clients leave what they did before the last try. It
    is read for a proof only: what is not found there is unknown.
    """

    def __init__(self, module: str, function: str, variables: Mapping[str, Any]) -> None:
        self.module = module
        self.function = function
        self.variables = variables


def frames(exc: BaseException) -> Iterator[Frame]:
    """The functions it passed through, outermost first."""
    step = exc.__traceback__
    while step is not None:
        frame = step.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        yield Frame(module, frame.f_code.co_name, frame.f_locals)
        step = step.tb_next


def frames_of(exc: BaseException, module: str, function: str) -> list[Frame]:
    """Those of one function. A generator or coroutine may show up in it several times."""
    return [it for it in frames(exc) if it.module == module and it.function == function]


def _reason(exc: BaseException) -> str:
    text = f"{type(exc).__qualname__}: {exc}"
    if len(text) > _REASON_CHARACTERS_MAX:
        text = text[: _REASON_CHARACTERS_MAX - 1] + "…"
    return text
