"""Libraries that call something again when it fails."""

from __future__ import annotations

import re

from ._frame import Args
from ._values import Extern, Value

_DECORATORS = re.compile(
    r"(tenacity|retrying|stamina|retry(\.api)?)\.retry\Z|backoff\.on_(exception|predicate)\Z"
)
_CALLERS = re.compile(
    r"tenacity\.(Async)?Retrying\Z|stamina\.(Async)?RetryingCaller\Z|stamina\.retry_context\Z"
    r"|(requests\.packages\.)?urllib3\.(util\.)?(retry\.)?Retry\Z"
)


def retrying_decorator(head: Value) -> str | None:
    """The name of a decorator that calls a function again when it fails."""
    is_one = isinstance(head.ref, Extern) and _DECORATORS.match(head.ref.path)
    return head.ref.path if is_one and isinstance(head.ref, Extern) else None


def retries(path: str, args: Args) -> bool:
    """Whether a call makes something that tries again."""
    if not _CALLERS.match(path):
        return False
    given = [
        *args.positional[:1],
        *(args.keyword[name] for name in args.keyword.keys() & {"total"}),
    ]
    return not any(value.const == 0 for value, _ in given)
