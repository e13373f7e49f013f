"""What errors of the system, groups of errors and errors of strangers prove."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from classify_kit import at_nobody, happened, verdict
from semel import NotApplied, Refused, classify
from semel._errors import SemelError, WriteOutsideEffect
from stand_ins import Provider, refusing_url


def address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def connect(url: str) -> None:
    socket.create_connection(address(url), timeout=1)


def exchange(url: str) -> None:
    with socket.create_connection(address(url), timeout=0.2) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        connection.recv(1)


def test_only_a_connection_that_was_not_made_is_a_proof() -> None:
    assert at_nobody(connect) == "not applied"
    assert verdict(happened(lambda: connect("http://nobody.invalid:1"))) == "not applied"
    for word in ("slam", "reset", "ok-reset", "ok-stall"):
        with Provider(word) as provider:
            assert verdict(happened(lambda: exchange(provider.url))) == "unknown", word


def test_an_asyncio_connection_is_judged_alike() -> None:
    def call(url: str) -> None:
        asyncio.run(asyncio.open_connection(*address(url)))

    assert at_nobody(call) == "not applied"


def test_files_and_strangers_prove_nothing(tmp_path: Path) -> None:
    class Strange(Exception):
        pass

    def strange() -> None:
        raise Strange("who knows")

    empty: dict[str, str] = {}
    missing = happened(lambda: (tmp_path / "missing").read_text())
    for error in (
        missing,
        happened(strange),
        happened(lambda: 1 / 0),
        happened(lambda: empty["a"]),
    ):
        assert verdict(error) == "unknown"


def test_an_error_of_a_stranger_is_not_judged_by_its_cause() -> None:
    def call(url: str) -> None:
        try:
            connect(url)
        except OSError as error:
            raise RuntimeError("gave up after many tries") from error

    assert at_nobody(call) == "unknown"


def test_a_subclass_of_a_known_error_is_judged_like_it() -> None:
    class Mine(httpx.HTTPStatusError):
        pass

    def call(url: str) -> None:
        response = httpx.post(url)
        raise Mine("mine", request=response.request, response=response)

    with Provider("422") as provider:
        assert verdict(happened(lambda: call(provider.url))) == "refused"


def test_proofs_are_passed_on_as_they_are() -> None:
    for proof in (NotApplied("nothing sent"), Refused("no such order")):
        assert classify.error(proof) is proof
    assert verdict(WriteOutsideEffect("nothing sent")) == "not applied"
    assert verdict(SemelError("something else")) == "unknown"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with 3.11")
def test_a_group_proves_what_all_its_members_prove() -> None:
    group: Any = ExceptionGroup
    sent_nothing = happened(lambda: connect(refusing_url()))
    with Provider("422") as provider:
        said_no = happened(lambda: httpx.post(provider.url).raise_for_status())
    with Provider("reset") as provider:
        cut = happened(lambda: exchange(provider.url))
    table: list[tuple[list[BaseException], str]] = [
        ([sent_nothing], "not applied"),
        ([sent_nothing, sent_nothing], "not applied"),
        ([said_no, said_no], "refused"),
        ([sent_nothing, said_no], "unknown"),
        ([sent_nothing, cut], "unknown"),
        ([cut], "unknown"),
        ([group("inner", [sent_nothing, cut]), sent_nothing], "unknown"),
        ([group("inner", [sent_nothing]), sent_nothing], "not applied"),
    ]
    for members, want in table:
        assert verdict(group("several", members)) == want, members


@contextmanager
def tls_server(tmp_path: Path) -> Iterator[str]:
    """A server with a certificate that nobody trusts."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=localhost", "-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_certificate_that_was_not_accepted_means_nothing_was_sent(tmp_path: Path) -> None:
    def with_aiohttp(url: str) -> None:
        async def call() -> None:
            async with aiohttp.ClientSession() as session:
                await session.post(url)

        asyncio.run(call())

    clients: list[Callable[[str], Any]] = [httpx.post, requests.post, with_aiohttp]
    with tls_server(tmp_path) as url:
        for client in clients:
            assert verdict(happened(partial(client, url))) == "not applied", client


def test_the_classifier_imports_no_client() -> None:
    program = (
        "import sys, semel.classify; semel.classify.error(ConnectionRefusedError(111, 'no'))\n"
        "clients = {'httpx', 'requests', 'urllib3', 'aiohttp', 'openai', 'anthropic', 'stripe',"
        " 'botocore', 'smtplib'}\n"
        "print(sorted(clients & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("client", ["httpx", "requests", "stripe"])
def test_a_client_that_is_not_installed_is_named(client: str) -> None:
    program = (
        f"import sys; sys.modules['{client}'] = None\n"
        "import semel\n"
        f"try:\n    import semel.{client}\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    want = f"semel.{client} needs the {client} package: pip install {client}"
    assert (done.stdout.strip(), done.stderr) == (want, "")
