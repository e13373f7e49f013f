"""What errors of httpx, requests, urllib3, aiohttp and urllib prove; each is let happen."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import urllib3
from classify_kit import (
    ANSWERS,
    at_full_backlog,
    at_nobody,
    at_provider,
    happened,
    patience_s,
    verdict,
)
from requests.adapters import HTTPAdapter
from stand_ins import Provider, refusing_url
from urllib3.util import Retry

Call = Callable[[str], Any]


def with_httpx(url: str, **options: Any) -> None:
    httpx.post(url, timeout=patience_s(), **options).raise_for_status()


def with_httpx_async(url: str, **options: Any) -> None:
    async def call() -> None:
        async with httpx.AsyncClient(timeout=patience_s()) as client:
            (await client.post(url, **options)).raise_for_status()

    asyncio.run(call())


def with_requests(url: str, **options: Any) -> None:
    requests.post(url, timeout=patience_s(), **options).raise_for_status()


def with_requests_retrying(url: str, retries: Any = 2, method: str = "POST") -> None:
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        session.request(method, url, timeout=patience_s()).raise_for_status()


def with_aiohttp(url: str, method: str = "POST", **options: Any) -> None:
    async def call() -> None:
        limits = aiohttp.ClientTimeout(connect=patience_s(), sock_read=patience_s())
        async with aiohttp.ClientSession(timeout=limits) as session:
            async with session.request(method, url, **options) as response:
                response.raise_for_status()

    asyncio.run(call())


def with_urllib(url: str) -> None:
    urllib.request.urlopen(url, data=b"body", timeout=patience_s())


CLIENTS: dict[str, Call] = {
    "httpx": with_httpx,
    "httpx, async": with_httpx_async,
    "requests": with_requests,
    "aiohttp": with_aiohttp,
    "aiohttp, raising": lambda url: with_aiohttp(url, raise_for_status=True),
    "urllib": with_urllib,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("word", ANSWERS)
def test_what_an_answer_proves(client: str, word: str) -> None:
    assert at_provider(word, CLIENTS[client]) == ANSWERS[word]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_never_left_this_machine_was_not_applied(client: str) -> None:
    assert at_nobody(CLIENTS[client]) == "not applied"
    unresolved = happened(lambda: CLIENTS[client]("http://nobody.invalid/"))
    assert verdict(unresolved) == "not applied"


@pytest.mark.parametrize("client", sorted(CLIENTS.keys() - {"urllib"}))
def test_a_connect_that_timed_out_was_not_applied(client: str) -> None:
    assert at_full_backlog(CLIENTS[client]) == "not applied"


def test_urllib_does_not_say_which_timeout_it_was() -> None:
    assert at_full_backlog(with_urllib) == "unknown"


@pytest.mark.parametrize("client", sorted(CLIENTS.keys() - {"urllib"}))
def test_a_url_that_is_none_was_not_applied(client: str) -> None:
    assert verdict(happened(lambda: CLIENTS[client]("nowhere"))) == "not applied"


def test_a_proxy_that_is_not_there_means_nothing_was_sent() -> None:
    def through_proxy_of_requests(proxy: str) -> None:
        requests.post("http://crm.example", proxies={"http": proxy})

    for call in (
        through_proxy_of_requests,
        lambda proxy: httpx.post("http://crm.example", proxy=proxy),
        lambda proxy: with_aiohttp("http://crm.example", proxy=proxy),
    ):
        assert at_nobody(call) == "not applied"


def test_a_request_that_waited_in_vain_for_a_free_connection_was_not_applied() -> None:
    one = httpx.Limits(max_connections=1)
    limits = httpx.Timeout(10, pool=0.1)
    with Provider() as provider, httpx.Client(limits=one, timeout=limits) as client:
        with client.stream("POST", provider.url):
            error = happened(lambda: client.post(provider.url))
    assert (type(error), verdict(error)) == (httpx.PoolTimeout, "not applied")


def test_a_header_that_is_none_was_not_applied() -> None:
    error = happened(lambda: with_requests(refusing_url(), headers={"a": "b\r\nc"}))
    assert (type(error).__name__, verdict(error)) == ("InvalidHeader", "not applied")


FOLLOWING: dict[str, Call] = {
    "httpx": lambda url: with_httpx(url, follow_redirects=True),
    "httpx, async": lambda url: with_httpx_async(url, follow_redirects=True),
    "requests": with_requests,
    "aiohttp": with_aiohttp,
    "aiohttp, raising": lambda url: with_aiohttp(url, raise_for_status=True),
    "urllib": with_urllib,
    "urllib3": lambda url: urllib3.PoolManager().request("POST", url, timeout=patience_s()),
}


@pytest.mark.parametrize("client", FOLLOWING)
@pytest.mark.parametrize("redirect", ["ok>303", "ok>302", "ok>307"])
def test_a_refusal_behind_a_redirect_says_nothing_about_the_first_server(
    client: str, redirect: str
) -> None:
    call = FOLLOWING[client]
    assert at_provider(f"{redirect} {refusing_url()}", call) == "unknown"
    if client == "urllib3":  # it raises no error for a status
        return
    for status in ("404", "401"):
        with Provider(status) as target:
            assert at_provider(f"{redirect} {target.url}", call) == "unknown"


def test_an_answer_that_asked_for_credentials_does_no_harm() -> None:
    login = httpx.DigestAuth("me", "secret")
    header = {"WWW-Authenticate": 'Digest realm="r", nonce="n", algorithm=MD5, qop="auth"'}

    def challenge(request: httpx.Request) -> httpx.Response:
        known = "Authorization" in request.headers
        return httpx.Response(422) if known else httpx.Response(401, headers=header)

    with httpx.Client(transport=httpx.MockTransport(challenge), auth=login) as client:
        error = happened(lambda: client.post("http://crm.example").raise_for_status())
    assert verdict(error) == "refused"


def test_a_transport_that_somebody_else_wrote_may_have_sent_before() -> None:
    class Twice(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return super().handle_request(request)

    with httpx.Client(transport=Twice()) as client:
        assert at_nobody(lambda url: client.post(url)) == "unknown"
        assert at_nobody(lambda url: client.post(url), single_try=True) == "not applied"
    with httpx.Client(transport=httpx.HTTPTransport(retries=2)) as client:
        assert at_nobody(lambda url: client.post(url)) == "not applied"


RETRYING = Retry(
    2, status_forcelist=[500], allowed_methods=None, backoff_factor=0, raise_on_status=False
)


def test_retries_of_urllib3_that_all_failed_to_connect_are_a_proof() -> None:
    assert at_nobody(lambda url: with_requests_retrying(url, RETRYING)) == "not applied"
    pool = urllib3.PoolManager(retries=RETRYING)
    assert at_nobody(lambda url: pool.request("POST", url)) == "not applied"
    assert at_nobody(lambda url: pool.request("POST", url, retries=False)) == "not applied"
    bare = urllib3.connection.HTTPConnection("127.0.0.1", 1)
    assert verdict(happened(bare.connect)) == "not applied"


@pytest.mark.parametrize("word", ["ok-reset", "ok500"])
@pytest.mark.parametrize("last", ["422", "401"])
def test_a_status_after_a_try_that_may_have_landed_proves_nothing(word: str, last: str) -> None:
    def call(url: str) -> None:
        with_requests_retrying(url, RETRYING)

    assert at_provider(f"{word}; {last}", call) == "unknown"
    assert at_provider(last, call) == ("refused" if last == "422" else "not applied")


@pytest.mark.parametrize(
    "retry",
    [
        RETRYING,
        # Its connect errors are raised as they are, without a MaxRetryError around them.
        Retry(2, connect=False, read=2, status_forcelist=[500], allowed_methods=None),
    ],
)
@pytest.mark.parametrize("word", ["ok-reset", "ok500", "ok>307 {}"])
def test_a_server_that_went_away_after_a_try_that_may_have_landed_proves_nothing(
    word: str, retry: Retry
) -> None:
    with Provider(f"last {word}".format(refusing_url())) as provider:
        pool = urllib3.PoolManager(retries=retry)
        error = happened(lambda: pool.request("POST", provider.url, timeout=patience_s()))
    assert verdict(error) == "unknown"
    with Provider(f"last {word}".format(refusing_url())) as provider:
        error = happened(lambda: with_requests_retrying(provider.url, retry))
    assert verdict(error) == "unknown"


def test_aiohttp_repeats_put_and_delete_in_silence() -> None:
    for method in ("PUT", "DELETE"):
        call = partial(with_aiohttp, method=method)
        assert at_provider("reset; 404", call) == "unknown"
        assert at_provider("404", call) == "unknown"
        assert at_provider("404", call, single_try=True) == "refused"
        assert at_provider("last ok-reset", call) == "unknown"
        assert at_nobody(call) == "not applied"


def test_a_middleware_of_aiohttp_may_have_sent_before() -> None:
    async def twice(request: Any, handler: Any) -> Any:
        return await handler(request)

    def call(url: str) -> None:
        with_aiohttp(url, middlewares=[twice])

    assert at_nobody(call) == "unknown"
    assert at_nobody(call, single_try=True) == "not applied"


HANDS: dict[str, Call] = {name: CLIENTS[name] for name in ("httpx", "requests", "urllib")}


@pytest.mark.parametrize("client", HANDS)
@pytest.mark.parametrize("first", ["ok-reset", "500", "422"])
def test_a_retry_by_hand_proves_nothing_once_the_first_try_went_out(
    client: str, first: str
) -> None:
    call = HANDS[client]

    def by_hand(url: str) -> None:
        try:
            call(url)
        except Exception:
            call(refusing_url())

    assert at_provider(first, by_hand) == "unknown"
    assert at_nobody(by_hand) == "not applied"


def test_what_was_handled_before_and_is_no_failed_request_does_not_matter() -> None:
    cache: dict[str, str] = {}

    def call(url: str) -> None:
        try:
            cache["not there"]
        except KeyError:
            with_httpx(url)

    assert at_nobody(call) == "not applied"
