"""`semel.httpx`: the real client, with the key of the intent on every write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import httpx
import pytest
import semel
import semel.httpx
from client_kit import in_async_effect, in_effect, open_ledger, with_key
from semel import InDoubt, NotApplied, Refused
from semel._errors import WriteOutsideEffect
from stand_ins import Provider, refusing_url

__all__ = ["open_ledger"]
pytestmark = pytest.mark.usefixtures("ledger")

# Nobody can resolve it: were it looked up, the error would be another one.
NOWHERE = "http://me:secret@nobody.invalid/tickets?token=secret"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "MERGE"])
def test_a_write_outside_of_an_effect_is_refused_before_anything_is_sent(method: str) -> None:
    async def asynchronous() -> None:
        async with semel.httpx.AsyncClient() as client:
            await client.request(method, NOWHERE)

    def streaming() -> None:
        with semel.httpx.stream(method, NOWHERE):
            pass

    with semel.httpx.Client() as client:
        for write in (
            lambda: client.request(method, NOWHERE),
            lambda: client.request(method, NOWHERE, headers={"Idempotency-Key": "mine"}),
            lambda: client.send(httpx.Request(method, NOWHERE)),
            lambda: semel.httpx.request(method, NOWHERE),
            streaming,
            lambda: asyncio.run(asynchronous()),
        ):
            with pytest.raises(WriteOutsideEffect) as refusal:
                write()
            assert refusal.value.code == "write_outside_effect"
            want = f"{method} http://nobody.invalid/tickets outside of an effect; nothing was sent"
            assert refusal.value.detail == want


def test_reads_pass_untouched_in_and_out_of_an_effect() -> None:
    reads: list[Callable[[str], httpx.Response]] = [
        semel.httpx.get,
        semel.httpx.head,
        semel.httpx.options,
        lambda url: semel.httpx.Client(follow_redirects=True).get(url),
    ]
    with Provider() as target, Provider(f">307 {target.url}/moved") as provider:
        for read in reads:
            read(provider.url)
            with_key(partial(read, provider.url), order=str(read))
        assert provider.keys == [None] * 8
        # The last two followed the redirect, as their client was told.
        assert [seen.path for seen in target.seen] == ["/moved", "/moved"]


WAYS: dict[str, Callable[[semel.httpx.Client, str], httpx.Response]] = {
    "post": lambda client, url: client.post(url, json={"a": 1}),
    "put": lambda client, url: client.put(url, content=b"body"),
    "patch": lambda client, url: client.patch(url, data={"a": "1"}),
    "delete": lambda client, url: client.delete(url),
    "own method": lambda client, url: client.request("post", url, files={"f": b"content"}),
    "send": lambda client, url: client.send(client.build_request("POST", url, json=[1])),
    "generator": lambda client, url: client.post(url, content=iter([b"bo", b"dy"])),
    "auth": lambda client, url: client.post(url, auth=("me", "secret")),
    "function post": lambda _, url: semel.httpx.post(url, json={"a": 1}, timeout=5),
    "function put": lambda _, url: semel.httpx.put(url, content=b"body", cookies={"a": "b"}),
    "function patch": lambda _, url: semel.httpx.patch(url, content=b"body", trust_env=False),
    "function delete": lambda _, url: semel.httpx.delete(url, verify=False),
}
BODIES = {"post": b'{"a":1}', "put": b"body", "patch": b"a=1", "send": b"[1]", "generator": b"body"}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_carries_the_downstream_key(way: str) -> None:
    with Provider() as provider, semel.httpx.Client() as client:
        key = with_key(lambda: WAYS[way](client, provider.url).raise_for_status())
        assert provider.keys == [key]
        if way in BODIES:
            assert provider.seen[0].body == BODIES[way]


def test_a_stream_carries_the_downstream_key() -> None:
    with Provider() as provider, semel.httpx.Client() as client:

        def streamed() -> None:
            with client.stream("POST", provider.url, json=1) as response:
                assert response.read()
            with semel.httpx.stream("POST", provider.url, json=1) as response:
                assert response.read()

        key = with_key(streamed)
        assert provider.keys == [key, key]


def test_the_async_client_carries_it_too() -> None:
    async def write(url: str) -> tuple[str, Any]:
        async def call() -> list[Any]:
            async with semel.httpx.AsyncClient() as client:
                first = (await client.post(url, json={"a": 1})).json()
                async with client.stream("PUT", url, content=b"body") as response:
                    await response.aread()
                return [semel.intent().downstream_key, first["id"]]

        key, made = await in_async_effect(call)
        return key, made

    with Provider() as provider:
        key, made = asyncio.run(write(provider.url))
        assert provider.keys == [key, key]
        assert made == "obj_1"


def test_a_key_the_caller_set_stands() -> None:
    with Provider() as provider, semel.httpx.Client(headers={"idempotency-KEY": "mine"}) as client:
        in_effect(lambda: client.post(provider.url).status_code, "1")
        in_effect(
            lambda: semel.httpx.post(provider.url, headers={"Idempotency-Key": "too"}).text, "2"
        )
        assert provider.keys == ["mine", "too"]


def test_a_key_of_the_callers_own_does_not_count_as_the_downstream_key() -> None:
    def write(url: str) -> Any:
        return semel.httpx.post(url, headers={"Idempotency-Key": "mine"}).json()

    with Provider("ok-reset", "ok") as provider:
        with pytest.raises(InDoubt):
            in_effect(lambda: write(provider.url), retries=1)
        # What the provider makes of that key is not known here: it is not sent again.
        assert provider.keys == ["mine"]


def test_the_header_may_have_another_name() -> None:
    with Provider() as provider, semel.httpx.Client(header="X-Request-Id") as client:
        key = with_key(
            lambda: (client.post(provider.url), semel.httpx.put(provider.url, header="X-Once"))
        )
        assert provider.keys == [None, None]
        assert provider.seen[0].headers["x-request-id"] == key
        assert provider.seen[1].headers["x-once"] == key


def test_a_request_object_does_not_carry_one_intents_key_into_the_next() -> None:
    with Provider() as provider, semel.httpx.Client() as client:
        request = client.build_request("POST", provider.url, json={"a": 1})
        keys = [with_key(lambda: client.send(request), order) for order in ("1", "2")]
        assert provider.keys == keys
        assert keys[0] != keys[1]
        assert [seen.body for seen in provider.seen] == [b'{"a":1}'] * 2


def test_the_response_shows_the_request_as_it_was_sent() -> None:
    with Provider() as provider:

        def call() -> None:
            sent = semel.httpx.post(provider.url, json={"a": 1}).request
            assert sent.headers["Idempotency-Key"] == semel.intent().downstream_key
            assert sent.content == b'{"a":1}'

        with_key(call)


def test_a_write_follows_redirects_only_when_that_call_says_so() -> None:
    with Provider() as target, Provider(f">307 {target.url}/moved") as provider:
        with semel.httpx.Client(follow_redirects=True) as client:

            def call() -> None:
                assert client.post(provider.url).status_code == 307
                assert target.seen == []
                assert client.post(provider.url, follow_redirects=True).status_code == 200

            assert target.keys == []
            key = with_key(call)
            assert target.keys == [key]


def test_an_auth_flow_sends_the_same_key_again() -> None:
    class Challenge(httpx.Auth):
        def auth_flow(
            self, request: httpx.Request
        ) -> Generator[httpx.Request, httpx.Response, None]:
            answer = yield request
            if answer.status_code == 401:
                request.headers["Authorization"] = "Bearer fresh"
                yield request

    with Provider("401", "ok") as provider, semel.httpx.Client(auth=Challenge()) as client:
        key = with_key(lambda: client.post(provider.url).raise_for_status())
        assert provider.keys == [key, key]
        assert "authorization" not in provider.seen[0].headers
        assert provider.seen[1].headers["authorization"] == "Bearer fresh"


@pytest.mark.parametrize("trouble", ["reset", "ok-reset", "ok500", "409"])
def test_a_doubt_is_tried_again_under_the_same_key_and_makes_one_object(trouble: str) -> None:
    with Provider(trouble, "ok") as provider:
        made = in_effect(
            lambda: semel.httpx.post(provider.url).raise_for_status().json()["id"], retries=1
        )
        assert made == "obj_1"
        assert len(provider.objects) == 1
        assert len(set(provider.keys)) == 1 and len(provider.keys) == 2


def test_the_classifier_decides_what_an_error_of_the_client_means() -> None:
    def write(url: str) -> Callable[[], Any]:
        return lambda: semel.httpx.post(url).raise_for_status().json()

    with pytest.raises(NotApplied):
        in_effect(write(refusing_url()), "refused connection")
    for script, outcome in {"422": Refused, "401": NotApplied, "500": InDoubt}.items():
        with Provider(script) as provider, pytest.raises(outcome):
            in_effect(write(provider.url), script)


def test_a_key_that_the_caller_passes_on_himself_counts() -> None:
    tries: list[str] = []

    @semel.effect(
        "own-key",
        key="{order}",
        downstream_key="shop:{order}",
        contract=semel.native_key("24h"),
        retries=semel.Retry(attempts=2, first="1ms"),
    )
    def send(order: str) -> str:
        header = {"Idempotency-Key": f"shop:{order}"}
        tries.append(order)
        with Provider() as provider, semel.httpx.Client(base_url=provider.url) as client:
            client.post("/things", json={}, headers=header).raise_for_status()
        if len(tries) == 1:
            raise RuntimeError("the answer is lost")
        return "sent"

    assert send("7") == "sent", "the key was passed on, so it may be sent again"
    assert tries == ["7", "7"]
