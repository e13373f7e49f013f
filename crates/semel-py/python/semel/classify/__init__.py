"""What an error proves. The only question that matters: can the request have landed?

`error(exc)` answers `NotApplied` (proof that nothing happened; may be tried again), `Refused`
(proof that nothing happened, and final) or None: unknown, which is never taken for a failure.
It knows httpx, requests, urllib3, aiohttp, openai, anthropic, stripe, botocore, smtplib, urllib and
the errors of the system, and imports none of them: whoever raised is imported already.

Only what the client itself shows is a proof. A client that tried more than once, followed a
redirect, or cannot be asked about it leaves the outcome unknown. So does an error inside of an
effect that was connected, or had sent something, before: see `semel._wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from semel import _wire
from semel._errors import NotApplied, Refused, WriteOutsideEffect
from semel.classify._proof import EARLIER_TRIES, Proof, not_applied, refused, status

__all__ = ["EARLIER_TRIES", "error", "status"]

# The package an error's class comes from, and the file here that knows it. The files are imported
# when first needed, so that `import semel` does not pay for them.
_FAMILIES = {
    "aiohttp": "_aiohttp",
    "anthropic": "_models",
    "botocore": "_aws",
    "builtins": "_system",
    "httpx": "_httpx",
    "httpx2": "_httpx",
    "openai": "_models",
    "requests": "_requests",
    "smtplib": "_smtp",
    "socket": "_system",
    "ssl": "_system",
    "stripe": "_stripe",
    "urllib": "_system",
    "urllib3": "_urllib3",
}


def error(exc: BaseException, *, single_try: bool = False) -> Proof | None:
    """What `exc` proves about the one write of an effect; None is unknown.

    `single_try=True` is your word that the client neither retries nor follows redirects, for
    clients whose errors do not say. Use it as `classify=partial(semel.classify.error,
    single_try=True)`.
    """
    if isinstance(exc, (NotApplied, Refused)):
        return exc
    proof = _alone(exc, single_try)
    return proof if proof is not None and _wire.allows(exc) else None


def alone(exc: BaseException) -> Proof | None:
    """What `exc` proves about its own call, whatever else the attempt has done."""
    return _alone(exc, single_try=False)


def _alone(exc: BaseException, single_try: bool) -> Proof | None:
    if isinstance(exc, (NotApplied, Refused)):
        return exc
    if isinstance(exc, WriteOutsideEffect):
        return not_applied(exc)
    members: tuple[BaseException, ...] | None = getattr(exc, "exceptions", None)
    if _is_group(exc) and members:
        return _of_all(exc, [_alone(member, single_try) for member in members])
    proof = _judge(exc, single_try)
    if proof is not None and _came_after_a_doubt(exc, single_try):
        return None
    return proof


def _is_group(exc: BaseException) -> bool:
    # By name, as Python 3.10 has no groups of its own and uses those of a package.
    return any(base.__name__ == "BaseExceptionGroup" for base in type(exc).__mro__)


def _of_all(exc: BaseException, proofs: list[Proof | None]) -> Proof | None:
    if all(isinstance(proof, NotApplied) for proof in proofs):
        return not_applied(exc)
    if all(isinstance(proof, Refused) for proof in proofs):
        return refused(exc)
    return None


def _judge(exc: BaseException, single_try: bool) -> Proof | None:
    judge = _family(exc)
    if judge is None:
        return None
    try:
        return judge(exc, single_try)
    except Exception:
        # A client of a version that looks different inside. What cannot be read proves nothing.
        return None


def _family(exc: BaseException) -> Callable[[BaseException, bool], Proof | None] | None:
    for base in type(exc).__mro__:
        name = _FAMILIES.get(base.__module__.partition(".")[0])
        # Below these two every exception is `builtins`, and that says nothing.
        if name is not None and base not in (Exception, BaseException):
            judge: Callable[[BaseException, bool], Proof | None]
            judge = import_module(f"{__name__}.{name}").proof
            return judge
    return None


def _came_after_a_doubt(exc: BaseException, single_try: bool) -> bool:
    """Whether it was raised while handling a failure that may have landed: a retry by hand."""
    return any(
        _is_of_the_network(before) and _judge(before, single_try) is None
        for before in _handled_meanwhile(exc)
    )


def _handled_meanwhile(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = exc
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        explained = current.__cause__ or _made_from(current)
        if explained is None and current.__context__ is not None:
            yield current.__context__
        current = explained or current.__context__


def _made_from(exc: BaseException) -> BaseException | None:
    # A cause explains the same failure, and so does a context that the error was made from. Any
    # other context is another failure, from before.
    before = exc.__context__
    made_from = (*exc.args, getattr(exc, "reason", None))
    return before if any(part is before for part in made_from) else None


def _is_of_the_network(exc: BaseException) -> bool:
    if isinstance(exc, OSError):
        return not isinstance(exc, (FileNotFoundError, FileExistsError, PermissionError))
    return type(exc).__module__.partition(".")[0] in _FAMILIES.keys() - {"builtins"}
