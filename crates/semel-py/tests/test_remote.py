"""The ledger of a server: what is only there. All other files are played over `http://…`, too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import NOT_OVER_HTTP, World
from semel import (
    AsyncSemel,
    Semel,
    SemelError,
    WorkflowContext,
    effect,
    function,
    transaction,
    workflow,
)


class Server:
    """`semel serve` on a store of its own."""

    def __init__(self, store: str) -> None:
        self.store = store
        line = [sys.executable, "-m", "semel", "--store", store, "serve", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip().removeprefix("listening on ")

    def token(self, namespace: str, role: str = "admin") -> str:
        """Makes a token, beside the server."""
        line = [sys.executable, "-m", "semel", "--store", self.store, "--namespace", namespace]
        line += ["tokens", "create", "--role", role]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()

    def stop(self) -> None:
        """Ends it as a supervisor does."""
        self.process.terminate()
        assert self.process.wait(20) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests: each has a namespace of its own."""
    server = Server(f"sqlite:{tmp_path_factory.mktemp('server')}/semel.db")
    yield server
    server.stop()


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex[:12]}"


@pytest.fixture
def app(server: Server, namespace: str) -> Iterator[Semel]:
    """An opened Semel, at the server."""
    app = Semel(server.url, token=server.token(namespace))
    yield app
    app.close()


def test_what_is_not_played_over_http_is_there_and_says_why() -> None:
    for name, why in NOT_OVER_HTTP.items():
        file, _, test = name.partition("::")
        source = (Path(__file__).parent / file).read_text()
        assert not test or f"def {test}(" in source, name
        assert why


def test_the_namespace_is_that_of_the_token(app: Semel, namespace: str) -> None:
    assert app.namespace == namespace
    assert app.draft().namespace == f"{namespace}~draft"


def test_the_token_may_be_in_the_environment_or_in_the_address(
    server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.token(namespace, "worker")
    inside = server.url.replace("http://", f"http://{token}@")
    with Semel(inside) as app:
        assert app.namespace == namespace
        app.close()
    monkeypatch.setenv("SEMEL_TOKEN", token)
    with Semel(server.url) as app:
        assert app.namespace == namespace
        app.close()


def test_what_is_refused_says_so_by_its_code(
    server: Server, namespace: str, tmp_path: Path, world: World
) -> None:
    worker = server.token(namespace, "worker")
    for url, token, code in [
        (server.url, None, "unauthenticated"),
        (server.url, "semel_x.y.z", "unauthenticated"),
        (server.url, server.token(namespace, "trigger"), "forbidden"),
        ("http://127.0.0.1:9", worker, "store_unavailable"),
        (f"sqlite:{tmp_path}/semel.db", worker, "store_url_invalid"),
    ]:
        with pytest.raises(SemelError) as refused:
            Semel(url, token=token)
        assert refused.value.code == code
        assert "semel_" not in str(refused.value)

    @effect("remote-mail", key="{number}")
    def mail(number: int) -> int:
        return len(world.calls) or world.do(number)["number"]

    app = Semel(server.url, "elsewhere", token=worker)
    with app, pytest.raises(SemelError) as refused:
        mail(1)
    assert refused.value.code == "forbidden"
    assert len(world) == 0
    app.close()


def test_a_transaction_is_refused_and_does_nothing(app: Semel, world: World) -> None:
    @transaction("remote-rows", key="{number}")
    def book(tx: Any, number: int) -> int:
        return world.do(number)["number"]

    with pytest.raises(SemelError) as refused:
        book(1)
    assert refused.value.code == "transaction_unsupported"
    assert len(world) == 0
    assert app.find("remote-rows", "1") is None


def test_an_async_semel_works_its_runs_over_http(server: Server, namespace: str) -> None:
    @function
    async def double(number: int) -> int:
        return number * 2

    @workflow(name="remote-doubling")
    async def doubling(ctx: WorkflowContext, number: int) -> int:
        return await ctx.step(double, await ctx.step(double, number, step_id="first"))

    async def main() -> int:
        async with AsyncSemel(server.url, token=server.token(namespace, "worker")) as app:
            assert app.namespace == namespace
            handle = await app.start(doubling, 3, key="k")
            return await handle.result(timeout=20)

    assert asyncio.run(main()) == 12
