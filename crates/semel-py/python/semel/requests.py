"""requests, made safe: every write of an effect carries the key of its intent.

`Session` is the real one with two differences, and only for writes, that is for any method but
GET, HEAD, OPTIONS and TRACE:

- Inside an effect `Idempotency-Key` is set to the downstream key, unless the request has that
  header already. Outside of an effect `WriteOutsideEffect` is raised and nothing is sent.
- Redirects are followed only if that very call says `allow_redirects=True`. A client that cannot
  connect to where it was sent on reports a refused connection, as if nothing had happened, though
  the first server may have acted.

Retries of a mounted `HTTPAdapter(max_retries=...)` repeat the same request, hence the same key.
One effect makes one write: a second one of the same effect would carry the same key.
"""

from __future__ import annotations

from typing import Any

from semel import _clients

try:
    import requests
except ModuleNotFoundError as error:
    raise _clients.missing("requests", error) from error

__all__ = ["Session", "delete", "get", "head", "options", "patch", "post", "put", "request"]

# Where `allow_redirects` stands among the positional arguments after method and URL.
_ALLOW_REDIRECTS_AT = 7


class Session(requests.Session):
    """`requests.Session` whose writes carry the downstream key in `header`."""

    def __init__(self, *, header: str = _clients.DEFAULT_HEADER) -> None:
        super().__init__()
        self._semel_header = header

    # requests pickles the attributes that are named here.
    __attrs__: list[str] = [*requests.Session.__attrs__, "_semel_header"]  # noqa: RUF012

    def request(
        self, method: str | bytes, url: str | bytes, *args: Any, **options: Any
    ) -> requests.Response:
        """Sends a request; every verb passes here. See the module for what is done to a write."""
        chosen = "allow_redirects" in options or len(args) > _ALLOW_REDIRECTS_AT
        if not chosen and _clients.is_write(_text(method)):
            options["allow_redirects"] = False
        with _clients.Sending(_text(method)) as sending:
            response = super().request(method, url, *args, **options)
            sending.answered(response)
            return response

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Sends a prepared request; every request ends here, those of redirects too."""
        if _clients.is_write(request.method or ""):
            request = _with_key(request, self._semel_header)
            options.setdefault("allow_redirects", False)
        with _clients.Sending(request.method or "") as sending:
            response = super().send(request, **options)
            sending.answered(response)
            return response


def request(method: str, url: str, **options: Any) -> requests.Response:
    """`requests.request`, made safe. Takes its options and `header=`."""
    header = options.pop("header", _clients.DEFAULT_HEADER)
    with Session(header=header) as session:
        return session.request(method, url, **options)


def get(url: str, params: Any = None, **options: Any) -> requests.Response:
    """Sends a GET, in or out of an effect."""
    return request("GET", url, params=params, **options)


def options(url: str, **options: Any) -> requests.Response:
    """Sends an OPTIONS, in or out of an effect."""
    return request("OPTIONS", url, **options)


def head(url: str, **options: Any) -> requests.Response:
    """Sends a HEAD, in or out of an effect; as in requests, redirects are not followed."""
    options.setdefault("allow_redirects", False)
    return request("HEAD", url, **options)


def post(url: str, data: Any = None, json: Any = None, **options: Any) -> requests.Response:
    """Sends a POST with the downstream key."""
    return request("POST", url, data=data, json=json, **options)


def put(url: str, data: Any = None, **options: Any) -> requests.Response:
    """Sends a PUT with the downstream key."""
    return request("PUT", url, data=data, **options)


def patch(url: str, data: Any = None, **options: Any) -> requests.Response:
    """Sends a PATCH with the downstream key."""
    return request("PATCH", url, data=data, **options)


def delete(url: str, **options: Any) -> requests.Response:
    """Sends a DELETE with the downstream key."""
    return request("DELETE", url, **options)


def _with_key(request: requests.PreparedRequest, header: str) -> requests.PreparedRequest:
    method, url = request.method or "", request.url or ""
    key = _clients.key_to_add(method, url, request.headers, header)
    if key is None:
        return request
    # A copy: the same request object, sent by the next intent, must not bring this one's key.
    keyed = request.copy()
    keyed.headers[header] = key
    return keyed


def _text(method: str | bytes) -> str:
    return method.decode("ascii") if isinstance(method, bytes) else method
