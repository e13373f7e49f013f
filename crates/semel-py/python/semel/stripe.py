"""stripe, made safe: every write of an effect carries the key of its intent.

    payments = semel.stripe.client("sk_live_…")

    @effect("charge", key="{order_id}", contract=native_key(retention="24h"))
    def charge(order_id: str, cents: int) -> dict:
        intent = payments.v1.payment_intents.create({"amount": cents, "currency": "eur"})
        return {"id": intent.id, "status": intent.status}

For the style without a client object, once at start:

    stripe.default_http_client = semel.stripe.HTTPClient()

Left alone, stripe makes up a random key for every call: its own retries are safe, and those of
anybody above it are not. Here each write is sent under the downstream key, its retries included.
Outside of an effect a write raises `WriteOutsideEffect` and nothing is sent. Reads are untouched.

A key you pass yourself (`idempotency_key=`) stands, unless it looks like the random ones that
stripe makes up, 32 hex digits in five groups: at this depth the two cannot be told apart, and the
downstream key is never worse than a random one. One effect makes one write; for a second one of
the same effect pass `idempotency_key=f"{semel.intent().downstream_key}-2"`.
"""

# stripe types its methods in part only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from semel import _clients
from semel._errors import NotApplied
from semel._wire import Calling
from semel.classify import EARLIER_TRIES
from semel.classify import alone as _classify
from semel.classify import status as _classify_status

try:
    import stripe
    from stripe._http_client import new_http_client_async_fallback
except ModuleNotFoundError as error:
    raise _clients.missing("stripe", error) from error

__all__ = ["HTTPClient", "client"]

_MADE_UP_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

# For each try of the running call: may it have landed? Stripe retries within one call of ours.
_tries: ContextVar[list[bool]] = ContextVar("semel_stripe_tries")


def client(
    api_key: str, *, http_client: stripe.HTTPClient | None = None, **options: Any
) -> stripe.StripeClient:
    """A `stripe.StripeClient` whose writes carry the downstream key.

    Takes the options of `stripe.StripeClient`. `http_client` is the client to send with; without
    one it is stripe's own choice.
    """
    # StripeClient hands these two to the HTTP client it makes, and here that is ours.
    sending = {name: options.pop(name) for name in ("proxy", "verify_ssl_certs") if name in options}
    safe = HTTPClient(http_client, **sending)
    return stripe.StripeClient(api_key, http_client=safe, **options)


class HTTPClient(stripe.HTTPClient):
    """An HTTP client of stripe's that sends by another one, and adds the key to every write.

    `inner` is the one that sends; without it stripe chooses, and `options` are its options.
    """

    def __init__(self, inner: stripe.HTTPClient | None = None, **options: Any) -> None:
        if inner is not None and options:
            raise ValueError("give the options to the HTTP client that you bring")
        super().__init__()
        # Any, as stripe types only some of the methods.
        self._inner: Any = inner or stripe.new_default_http_client(
            async_fallback_client=new_http_client_async_fallback(**options), **options
        )

    @property
    def name(self) -> str:  # type: ignore[override]  # fixed per class there, the inner's here
        """The library that sends; stripe names it in its user agent."""
        return str(self._inner.name)

    def request(
        self, method: str, url: str, headers: Any, post_data: Any = None, *, _usage: Any = None
    ) -> Any:
        """Makes one try."""
        with _watched():
            keyed = _keyed(method, url, headers)
            return _noted(self._inner.request(method, url, keyed, post_data))

    def request_stream(
        self, method: str, url: str, headers: Any, post_data: Any = None, *, _usage: Any = None
    ) -> Any:
        """Makes one try, and leaves the body to be read."""
        with _watched():
            keyed = _keyed(method, url, headers)
            return _noted(self._inner.request_stream(method, url, keyed, post_data))

    async def request_async(
        self, method: str, url: str, headers: Any, post_data: Any = None
    ) -> Any:
        """Makes one try."""
        with _watched():
            keyed = _keyed(method, url, headers)
            response = await self._inner.request_async(method, url, keyed, post_data)
            return _noted(response)

    async def request_stream_async(
        self, method: str, url: str, headers: Any, post_data: Any = None
    ) -> Any:
        """Makes one try, and leaves the body to be read."""
        with _watched():
            keyed = _keyed(method, url, headers)
            response = await self._inner.request_stream_async(method, url, keyed, post_data)
            return _noted(response)

    def request_with_retries(self, *args: Any, **options: Any) -> Any:
        """Makes as many tries as stripe's rules allow; so do the next three."""
        with _counted(*args) as sending:
            return _with_count(sending, super().request_with_retries(*args, **options))

    def request_stream_with_retries(self, *args: Any, **options: Any) -> Any:
        """See `request_with_retries`."""
        with _counted(*args) as sending:
            return _with_count(sending, super().request_stream_with_retries(*args, **options))

    async def request_with_retries_async(self, *args: Any, **options: Any) -> Any:
        """See `request_with_retries`."""
        with _counted(*args) as sending:
            response = await super().request_with_retries_async(*args, **options)
            return _with_count(sending, response)

    async def request_stream_with_retries_async(self, *args: Any, **options: Any) -> Any:
        """See `request_with_retries`."""
        with _counted(*args) as sending:
            response = await super().request_stream_with_retries_async(*args, **options)
            return _with_count(sending, response)

    def sleep_async(self, secs: float) -> Any:
        """Waits between two tries in the way of the library that sends."""
        return self._inner.sleep_async(secs)

    def close(self) -> None:
        """Closes what the inner client holds open."""
        self._inner.close()

    async def close_async(self) -> None:
        """Closes what the inner client holds open."""
        await self._inner.close_async()


def _keyed(method: str, url: str, headers: Mapping[str, str] | None) -> Mapping[str, str]:
    if not _clients.is_write(method):
        return headers or {}
    ours = _clients.DEFAULT_HEADER.lower()
    kept = {
        name: value
        for name, value in (headers or {}).items()
        if name.lower() != ours or not _MADE_UP_KEY.match(value)
    }
    key = _clients.key_to_add(method, url, {name.lower(): "" for name in kept}, ours)
    return kept if key is None else {**kept, _clients.DEFAULT_HEADER: key}


@contextmanager
def _watched() -> Generator[None, None, None]:
    """Remembers of a try that failed whether it may have landed."""
    try:
        yield
    except stripe.APIConnectionError as error:
        cause = error.__cause__
        proven = cause is not None and isinstance(_classify(cause), NotApplied)
        _tries_so_far().append(not proven)
        raise


def _noted(response: Any) -> Any:
    """Remembers of a try that was answered whether it may have landed."""
    _tries_so_far().append(_classify_status(response[1]) == "unknown")
    return response


def _tries_so_far() -> list[bool]:
    # Empty for whoever makes a single try past stripe's loop.
    return _tries.get([])


@contextmanager
def _counted(method: str = "POST", *_: Any) -> Generator[Calling, None, None]:
    """Counts the tries of one call, and writes the count on the error it ends with."""
    before = _tries.set([])
    try:
        with Calling() as sending:
            if not _clients.is_write(method):
                sending.vouch()
            yield sending
    except stripe.APIConnectionError as error:
        error.headers = {**(error.headers or {}), EARLIER_TRIES: _earlier_tries()}
        raise
    finally:
        _tries.reset(before)


def _with_count(sending: Calling, response: Any) -> Any:
    sending.answered(response)
    content, status, headers = response
    # Stripe hands the headers on to its error, which is where the classifier looks. Those of
    # aiohttp are read-only: without a count the classifier assumes the worst.
    with suppress(TypeError):
        headers[EARLIER_TRIES] = _earlier_tries()
    return content, status, headers


def _earlier_tries() -> str:
    return str(sum(_tries_so_far()[:-1]))
