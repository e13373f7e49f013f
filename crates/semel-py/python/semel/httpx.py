"""httpx, made safe: every write of an effect carries the key of its intent.

`Client` and `AsyncClient` are the real ones with two differences, and only for writes, that is for
any method but GET, HEAD, OPTIONS and TRACE:

- Inside an effect `Idempotency-Key` is set to the downstream key, unless the request has that
  header already. Outside of an effect `WriteOutsideEffect` is raised and nothing is sent.
- Redirects are followed only if that very call says `follow_redirects=True`. A client that cannot
  connect to where it was sent on reports a refused connection, as if nothing had happened, though
  the first server may have acted.

    client = semel.httpx.Client(base_url="https://crm.example")

    @effect("crm-ticket", key="{request_id}", contract=native_key(retention="24h"))
    def create_ticket(request_id: str) -> dict:
        return client.post("/tickets", json={"id": request_id}).raise_for_status().json()

One effect makes one write. A second write of the same effect would carry the same key, and a
provider that keeps keys would answer it with the first one's outcome: give it an effect of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from semel import _clients

try:
    import httpx
except ModuleNotFoundError as error:
    raise _clients.missing("httpx", error) from error

__all__ = [
    "AsyncClient",
    "Client",
    "delete",
    "get",
    "head",
    "options",
    "patch",
    "post",
    "put",
    "request",
    "stream",
]


class Client(httpx.Client):
    """`httpx.Client` whose writes carry the downstream key in `header`."""

    def __init__(self, *, header: str = _clients.DEFAULT_HEADER, **options: Any) -> None:
        super().__init__(**options)
        self._semel_header = header

    def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Sends a request; every verb ends here. See the module for what is done to a write."""
        if _clients.is_write(request.method):
            request = _with_key(request, self._semel_header)
            follow_redirects = follow_redirects is True
        with _clients.Sending(request.method) as sending:
            response = super().send(
                request, stream=stream, auth=auth, follow_redirects=follow_redirects
            )
            sending.answered(response)
            return response


class AsyncClient(httpx.AsyncClient):
    """`httpx.AsyncClient` whose writes carry the downstream key in `header`."""

    def __init__(self, *, header: str = _clients.DEFAULT_HEADER, **options: Any) -> None:
        super().__init__(**options)
        self._semel_header = header

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Sends a request; every verb ends here. See the module for what is done to a write."""
        if _clients.is_write(request.method):
            request = _with_key(request, self._semel_header)
            follow_redirects = follow_redirects is True
        with _clients.Sending(request.method) as sending:
            response = await super().send(
                request, stream=stream, auth=auth, follow_redirects=follow_redirects
            )
            sending.answered(response)
            return response


def request(method: str, url: httpx.URL | str, **options: Any) -> httpx.Response:
    """`httpx.request`, made safe. Takes its options and `header=`."""
    with _client_for_one_call(options) as client:
        return client.request(method, url, **options)


@contextmanager
def stream(
    method: str, url: httpx.URL | str, **options: Any
) -> Generator[httpx.Response, None, None]:
    """`httpx.stream`, made safe. Takes its options and `header=`."""
    client = _client_for_one_call(options)
    with client, client.stream(method, url, **options) as response:
        yield response


def get(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a GET, in or out of an effect."""
    return request("GET", url, **options)


def head(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a HEAD, in or out of an effect."""
    return request("HEAD", url, **options)


def options(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends an OPTIONS, in or out of an effect."""
    return request("OPTIONS", url, **options)


def post(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a POST with the downstream key."""
    return request("POST", url, **options)


def put(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a PUT with the downstream key."""
    return request("PUT", url, **options)


def patch(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a PATCH with the downstream key."""
    return request("PATCH", url, **options)


def delete(url: httpx.URL | str, **options: Any) -> httpx.Response:
    """Sends a DELETE with the downstream key."""
    return request("DELETE", url, **options)


# What the functions of httpx, new and old, hand to the client rather than to the request.
_CLIENT_OPTIONS = ("header", "cookies", "proxy", "proxies", "verify", "cert", "trust_env")


def _client_for_one_call(options: dict[str, Any]) -> Client:
    """Makes the client of a module function, and takes its options out of `options`."""
    return Client(**{name: options.pop(name) for name in _CLIENT_OPTIONS if name in options})


def _with_key(request: httpx.Request, header: str) -> httpx.Request:
    key = _clients.key_to_add(request.method, str(request.url), request.headers, header)
    if key is None:
        return request
    # A copy: the same request object, sent by the next intent, must not bring this one's key.
    keyed = httpx.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions=request.extensions,
    )
    keyed.headers[header] = key
    _keep_loaded_body(keyed)
    return keyed


def _keep_loaded_body(request: httpx.Request) -> None:
    # A body in memory stays readable as `response.request.content`, as httpx promises.
    if isinstance(request.stream, httpx.ByteStream):
        request.read()
