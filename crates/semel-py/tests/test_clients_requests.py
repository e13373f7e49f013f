"""`semel.requests`: the real session, with the key of the intent on every write."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import requests
import semel
import semel.requests
from client_kit import in_effect, open_ledger, with_key
from requests.adapters import HTTPAdapter
from semel._errors import WriteOutsideEffect
from stand_ins import Provider
from urllib3.util import Retry

__all__ = ["open_ledger"]
pytestmark = pytest.mark.usefixtures("ledger")

# Nobody can resolve it: were it looked up, the error would be another one.
NOWHERE = "http://nobody.invalid/tickets"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "MERGE"])
def test_a_write_outside_of_an_effect_is_refused_before_anything_is_sent(method: str) -> None:
    with semel.requests.Session() as session:
        writes: list[Callable[[], object]] = [
            lambda: session.request(method, NOWHERE),
            lambda: session.request(method, NOWHERE, headers={"Idempotency-Key": "mine"}),
            lambda: session.send(requests.Request(method, NOWHERE).prepare()),
            lambda: semel.requests.request(method, NOWHERE),
        ]
        for write in writes:
            with pytest.raises(WriteOutsideEffect) as refusal:
                write()
            assert refusal.value.code == "write_outside_effect"


def test_reads_pass_untouched_in_and_out_of_an_effect() -> None:
    with Provider() as target, Provider(f">307 {target.url}/moved") as provider:
        for read in (semel.requests.get, semel.requests.head, semel.requests.options):
            read(provider.url)
            with_key(partial(read, provider.url), order=str(read))
        assert provider.keys == [None] * 6
        # As in requests, all but HEAD follow.
        assert [seen.method for seen in target.seen] == ["GET", "GET", "OPTIONS", "OPTIONS"]


WAYS: dict[str, Callable[[semel.requests.Session, str], requests.Response]] = {
    "post": lambda session, url: session.post(url, json={"a": 1}),
    "put": lambda session, url: session.put(url, data=b"body"),
    "patch": lambda session, url: session.patch(url, data={"a": "1"}),
    "delete": lambda session, url: session.delete(url),
    "lower case": lambda session, url: session.request("post", url, files={"f": b"content"}),
    "positional": lambda session, url: session.request("POST", url, None, b"body"),
    "prepared": lambda session, url: session.send(requests.Request("POST", url).prepare()),
    "generator": lambda session, url: session.post(url, data=iter([b"bo", b"dy"])),
    "function post": lambda _, url: semel.requests.post(url, json={"a": 1}, timeout=5),
    "function put": lambda _, url: semel.requests.put(url, b"body"),
    "function patch": lambda _, url: semel.requests.patch(url, b"body"),
    "function delete": lambda _, url: semel.requests.delete(url),
    "pickled": lambda session, url: pickle.loads(pickle.dumps(session)).post(url),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_carries_the_downstream_key(way: str) -> None:
    with Provider() as provider, semel.requests.Session() as session:
        key = with_key(lambda: WAYS[way](session, provider.url).raise_for_status())
        assert provider.keys == [key]


def test_a_key_the_caller_set_stands() -> None:
    with Provider() as provider, semel.requests.Session() as session:
        session.headers["idempotency-KEY"] = "mine"
        in_effect(lambda: session.post(provider.url).status_code, "1")
        mine = {"Idempotency-Key": "too"}
        in_effect(lambda: semel.requests.post(provider.url, headers=mine).text, "2")
        assert provider.keys == ["mine", "too"]


def test_the_header_may_have_another_name() -> None:
    with Provider() as provider, semel.requests.Session(header="X-Request-Id") as session:
        key = with_key(
            lambda: (session.post(provider.url), semel.requests.put(provider.url, header="X-Once"))
        )
        assert provider.keys == [None, None]
        assert provider.seen[0].headers["x-request-id"] == key
        assert provider.seen[1].headers["x-once"] == key


def test_a_prepared_request_does_not_carry_one_intents_key_into_the_next() -> None:
    with Provider() as provider, semel.requests.Session() as session:
        request = requests.Request("POST", provider.url, json={"a": 1}).prepare()
        keys = [with_key(lambda: session.send(request), order) for order in ("1", "2")]
        assert provider.keys == keys
        assert keys[0] != keys[1]
        assert [seen.body for seen in provider.seen] == [b'{"a": 1}'] * 2


def test_a_write_follows_redirects_only_when_that_call_says_so() -> None:
    with Provider() as target, Provider(f">307 {target.url}/moved") as provider:
        with semel.requests.Session() as session:

            def call() -> None:
                prepared = requests.Request("POST", provider.url).prepare()
                assert session.send(prepared).status_code == 307
                assert session.post(provider.url).status_code == 307
                assert semel.requests.put(provider.url).status_code == 307
                assert target.seen == []
                assert session.post(provider.url, allow_redirects=True).status_code == 200
                positional: list[Any] = [None] * 7
                assert session.request("PUT", provider.url, *positional, True).status_code == 200

            key = with_key(call)
            assert target.keys == [key, key]


def test_retries_of_an_adapter_carry_the_same_key() -> None:
    policy = Retry(
        3, status_forcelist=[500], allowed_methods=None, backoff_factor=0, raise_on_status=False
    )
    with Provider("reset", "ok-reset", "ok500", "ok") as provider:
        with semel.requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=policy))
            key = with_key(lambda: session.post(provider.url).raise_for_status())
        assert provider.keys == [key] * 4
        assert len(provider.objects) == 1


@pytest.mark.parametrize("trouble", ["reset", "ok-reset", "ok500", "409"])
def test_a_doubt_is_tried_again_under_the_same_key_and_makes_one_object(trouble: str) -> None:
    def write(url: str) -> Any:
        response = semel.requests.post(url)
        response.raise_for_status()
        return response.json()["id"]

    with Provider(trouble, "ok") as provider:
        assert in_effect(lambda: write(provider.url), retries=1) == "obj_1"
        assert len(provider.objects) == 1
        assert len(set(provider.keys)) == 1 and len(provider.keys) == 2
