"""Ways to call the outside world from one effect, and what the error that each ends with proves.

`live` is a server that answers by the pattern's script and counts what arrives; at `dead` nobody
listens. Most patterns write to `live` first; the error comes after.
"""

from __future__ import annotations

import asyncio
import http.client
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anthropic
import boto3
import httpx
import openai
import requests
import semel.httpx
import semel.requests
import semel.stripe
import stripe
import tenacity
import urllib3
import uvloop
from botocore.config import Config
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

Work = Callable[[str, str], Any]


@dataclass(frozen=True)
class Pattern:
    """What one attempt does, what its error proves, and how many requests arrive."""

    work: Work
    proves: str
    requests: int
    """In one attempt."""
    script: tuple[str, ...] = ("ok",)


PATTERNS: dict[str, Pattern] = {}

DOUBT = "unknown"
NOTHING = "not_applied"
NO = "refused"


def pattern(name: str, proves: str, requests: int, *script: str) -> Callable[[Work], Work]:
    def add(work: Work) -> Work:
        PATTERNS[name] = Pattern(work, proves, requests, script or ("ok",))
        return work

    return add


def add(name: str, proves: str, requests: int, work: Work, *script: str) -> None:
    pattern(name, proves, requests, *script)(work)


SESSION = requests.Session()
CLIENT = httpx.Client()
SAFE = semel.httpx.Client()
SAFE_SESSION = semel.requests.Session()
POOL = urllib3.PoolManager()
THREADS = ThreadPoolExecutor(2)


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


def refused(dead: str) -> None:
    socket.create_connection(address(dead))


RAW_POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def raw_post(url: str) -> None:
    with socket.create_connection(address(url)) as connection:
        connection.sendall(RAW_POST)
        while connection.recv(4096):
            pass


async def stream_post(url: str) -> None:
    reader, writer = await asyncio.open_connection(*address(url))
    writer.write(RAW_POST)
    await reader.read()
    writer.close()


def both(first: Callable[[str], Any], second: Callable[[str], Any]) -> Work:
    """One call to where it is answered, and then one to where nobody listens."""

    def work(live: str, dead: str) -> None:
        first(live)
        second(dead)

    return work


def only(call: Callable[[str], Any]) -> Work:
    return lambda live, dead: call(dead)


def answered(call: Callable[[str], Any]) -> Work:
    return lambda live, dead: call(live)


def post_requests(url: str) -> None:
    requests.post(url).raise_for_status()


def post_session(url: str) -> None:
    SESSION.post(url).raise_for_status()


def post_httpx(url: str) -> None:
    httpx.post(url).raise_for_status()


def post_client(url: str) -> None:
    CLIENT.post(url).raise_for_status()


def post_httpx_async(url: str) -> None:
    async def call() -> None:
        async with httpx.AsyncClient() as client:
            (await client.post(url)).raise_for_status()

    asyncio.run(call())


def post_aiohttp(url: str) -> None:
    async def call() -> None:
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            response.raise_for_status()

    asyncio.run(call())


def post_urllib(url: str) -> None:
    urllib.request.urlopen(url, data=b"body").read()


def post_urllib3(url: str) -> None:
    POOL.request("POST", url, retries=False)


def post_http_client(url: str) -> None:
    connection = http.client.HTTPConnection(*address(url))
    connection.request("POST", "/", b"body")
    connection.getresponse().read()
    connection.close()


def post_boto(url: str) -> None:
    limits = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    client: Any = boto3.Session("id", "secret").client(
        "dynamodb", region_name="eu-west-1", endpoint_url=url, config=limits
    )
    client.put_item(TableName="tickets", Item={"id": {"S": "1"}})


def post_openai(url: str, retries: int = 0) -> None:
    client = openai.OpenAI(base_url=url, api_key="secret", max_retries=retries)
    client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hello"}])


def post_anthropic(url: str) -> None:
    client = anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0)
    said: Any = [{"role": "user", "content": "hello"}]
    client.messages.create(max_tokens=1, model="any", messages=said)


def charge(client: Any) -> None:
    client.v1.payment_intents.create({"amount": 100, "currency": "eur"})


def post_stripe(url: str) -> None:
    charge(stripe.StripeClient("sk_test", base_addresses={"api": url}, max_network_retries=0))


def post_safe_stripe(url: str) -> None:
    charge(semel.stripe.client("sk_test", base_addresses={"api": url}, max_network_retries=0))


POSTS: dict[str, Callable[[str], Any]] = {
    "requests": post_requests,
    "requests, session": post_session,
    "httpx": post_httpx,
    "httpx, client": post_client,
    "httpx, async": post_httpx_async,
    "aiohttp": post_aiohttp,
    "urllib": post_urllib,
    "urllib3": post_urllib3,
    "http.client": post_http_client,
    "raw sockets": raw_post,
    "asyncio streams": lambda url: asyncio.run(stream_post(url)),
    "boto3": post_boto,
    "openai": post_openai,
    "anthropic": post_anthropic,
    "stripe": post_stripe,
    "semel.httpx": lambda url: SAFE.post(url).raise_for_status(),
    "semel.requests": lambda url: SAFE_SESSION.post(url).raise_for_status(),
    "semel.stripe": post_safe_stripe,
}
RAISES_NO_STATUS = {"urllib3", "http.client", "raw sockets", "asyncio streams"}


def then(second: Callable[[str], Any], first: Callable[[str], Any] = post_requests) -> Work:
    """A write, and then another call to the same server."""

    def work(live: str, dead: str) -> None:
        first(live)
        second(live)

    return work


for name, post in POSTS.items():
    add(f"{name}: refused", NOTHING, 0, only(post))
    add(f"{name}: written, then a socket is refused", DOUBT, 1, both(post, refused))
    add(f"{name}: written, then refused", DOUBT, 1, both(post, post))
    if name not in RAISES_NO_STATUS:
        # Left alone, stripe does not say how often it has tried.
        add(f"{name}: 422", DOUBT if name == "stripe" else NO, 1, answered(post), "422")
        add(f"{name}: written, then 422", DOUBT, 2, then(post, post), "ok", "422")


def get_httpx(url: str) -> None:
    httpx.get(url).raise_for_status()


add("GET 404 after the POST", DOUBT, 2, then(get_httpx), "ok", "404")
add(
    "GET 404 on a kept connection",
    DOUBT,
    2,
    then(lambda url: SESSION.get(url).raise_for_status(), post_session),
    "ok",
    "404",
)
add(
    "a name that is not found, after the POST",
    DOUBT,
    1,
    then(lambda _: socket.create_connection(("nobody.invalid", 80))),
)
add("a name that is not found", NOTHING, 0, only(lambda _: requests.post("http://nobody.invalid/")))
add("a URL that is none, after the POST", DOUBT, 1, then(lambda _: requests.get("nowhere")))
add(
    "arguments that are wrong, after the POST",
    DOUBT,
    1,
    then(
        lambda url: (
            boto3.Session("id", "secret").client("dynamodb", region_name="eu-west-1").put_item()
        )
    ),
)
add("a read by a foreign client, then refused", DOUBT, 1, both(get_httpx, post_requests))
add("a read by semel.httpx, then refused", NOTHING, 1, both(SAFE.get, SAFE.post))
add("a read by semel.requests, then refused", NOTHING, 1, both(SAFE_SESSION.get, post_requests))
add(
    "a read by semel.httpx, then 422",
    NO,
    2,
    then(lambda url: SAFE.post(url).raise_for_status(), SAFE.get),
    "ok",
    "422",
)
add(
    "401 to semel.httpx, then 422",
    NO,
    2,
    then(lambda url: SAFE.post(url).raise_for_status(), SAFE.post),
    "401",
    "422",
)
add(
    "a write by semel.httpx, then its read gets 404",
    DOUBT,
    2,
    then(lambda url: SAFE.get(url).raise_for_status(), SAFE.post),
    "ok",
    "404",
)
add(
    "a write by semel.stripe, then its read gets 404",
    DOUBT,
    2,
    then(
        lambda url: semel.stripe.client("sk", base_addresses={"api": url}).v1.customers.retrieve(
            "c"
        ),
        post_safe_stripe,
    ),
    "ok",
    "404",
)


@pattern("two refused, one after the other", NOTHING, 0)
def _two_refused(live: str, dead: str) -> None:
    try:
        httpx.post(dead)
    except httpx.ConnectError:
        requests.post(dead)


@pattern("the first is refused, the second answered 422", NO, 1, "422")
def _second_answered(live: str, dead: str) -> None:
    try:
        httpx.post(dead)
    except httpx.ConnectError:
        pass
    post_httpx(live)


@pattern("both addresses of a name are refused", NOTHING, 0)
def _two_addresses(live: str, dead: str) -> None:
    host, port = address(dead)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    error: OSError | None = None
    for family, kind, _, _, where in [*found, *found]:
        try:
            socket.socket(family, kind).connect(where)
        except OSError as refusal:
            error = refusal
    assert error is not None
    raise error


RETRYING = Retry(2, status_forcelist=[500], allowed_methods=None, backoff_factor=0)


@pattern("urllib3.Retry: the first try may have landed", DOUBT, 1, "last ok500")
def _urllib3_retry(live: str, dead: str) -> None:
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=RETRYING))
        session.post(live)


add(
    "urllib3.Retry: every try is refused",
    NOTHING,
    0,
    only(lambda url: urllib3.PoolManager(retries=RETRYING).request("POST", url)),
)


@pattern("tenacity: the first try may have landed", DOUBT, 1, "last ok500")
def _tenacity(live: str, dead: str) -> None:
    again = tenacity.Retrying(stop=tenacity.stop_after_attempt(2), reraise=True)
    again(post_httpx, live)


add(
    "openai: its own retry is refused",
    DOUBT,
    1,
    answered(lambda url: post_openai(url, retries=1)),
    "last ok500",
)


@pattern("a redirect to where nobody listens", DOUBT, 1, "ok>303 {dead}")
def _redirected(live: str, dead: str) -> None:
    requests.post(live)


@pattern("a thread writes, then refused", DOUBT, 1)
def _thread(live: str, dead: str) -> None:
    thread = threading.Thread(target=post_requests, args=(live,))
    thread.start()
    thread.join()
    refused(dead)


@pattern("a thread is refused", NOTHING, 0)
def _thread_refused(live: str, dead: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(post_requests, dead).result()


@pattern("a pool from before writes, then refused", DOUBT, 1)
def _pool(live: str, dead: str) -> None:
    THREADS.submit(post_requests, live).result()
    post_httpx(dead)


@pattern("a pool from before is refused", NOTHING, 0)
def _pool_refused(live: str, dead: str) -> None:
    THREADS.submit(post_requests, dead).result()


@pattern("a thread of asyncio writes, then refused", DOUBT, 1)
def _to_thread(live: str, dead: str) -> None:
    async def call() -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, post_requests, live)
        await asyncio.to_thread(post_requests, dead)

    asyncio.run(call())


@pattern("a thread that has not ended, and refused", DOUBT, 1)
def _still_running(live: str, dead: str) -> None:
    go = threading.Event()
    thread = threading.Thread(target=lambda: go.wait() and post_requests(live))
    thread.start()
    try:
        refused(dead)
    except OSError as error:
        held = error
    LATER.append((go, thread))
    raise held


LATER: list[tuple[threading.Event, threading.Thread]] = []
"""What the test lets go on once the attempt is over."""


@pattern("one of two at once is refused", DOUBT, 1)
def _gathered(live: str, dead: str) -> None:
    async def call() -> None:
        async with httpx.AsyncClient() as client:
            written = asyncio.create_task(client.post(live))
            await written
            await asyncio.gather(client.post(dead), client.post(dead))

    asyncio.run(call())


@pattern("a process writes, then refused", DOUBT, 1)
def _subprocess(live: str, dead: str) -> None:
    program = f"import urllib.request as r; r.urlopen({live!r}, data=b'x').read()"
    subprocess.run([sys.executable, "-c", program], check=True)
    refused(dead)


@pattern("a shell writes, then refused", DOUBT, 1)
def _shell(live: str, dead: str) -> None:
    program = f"import urllib.request as r; r.urlopen('{live}', data=b'x').read()"
    assert os.system(f'{sys.executable} -c "{program}"') == 0
    refused(dead)


@pattern("a child of multiprocessing writes, then refused", DOUBT, 1)
def _child(live: str, dead: str) -> None:
    child = multiprocessing.get_context("spawn").Process(target=raw_post, args=(live,))
    child.start()
    child.join()
    refused(dead)


def on_uvloop(*calls: Callable[[], Any]) -> None:
    async def all_of_them() -> None:
        for call in calls:
            await call()

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(all_of_them())
    finally:
        loop.close()


async def aiohttp_post(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        response.raise_for_status()


add(
    "uvloop, streams: written, then a socket is refused",
    DOUBT,
    1,
    both(lambda url: on_uvloop(lambda: stream_post(url)), refused),
)
add("uvloop, streams: refused", DOUBT, 0, only(lambda url: on_uvloop(lambda: stream_post(url))))
add("uvloop, aiohttp: refused", NOTHING, 0, only(lambda url: on_uvloop(lambda: aiohttp_post(url))))
add(
    "uvloop, aiohttp: 422", NO, 1, answered(lambda url: on_uvloop(lambda: aiohttp_post(url))), "422"
)


@pattern("uvloop, aiohttp: written, then refused", DOUBT, 1)
def _uvloop_aiohttp(live: str, dead: str) -> None:
    on_uvloop(lambda: aiohttp_post(live), lambda: aiohttp_post(dead))
