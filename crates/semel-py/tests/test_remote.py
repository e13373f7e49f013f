"""The ledger of a server: tests of other files as they are, on `http://…`, and what differs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_approvals
import test_workflows
from conftest import World
from semel import AsyncSemel, Semel, SemelError, WorkflowContext, effect, function, workflow
from test_approvals import (
    test_req_a2_a_second_click_adds_nothing_and_is_told_the_first_answer,
    test_req_a3_nothing_is_sent_before_whoever_asks_and_however_often,
)
from test_children import (
    test_a_cancel_goes_down,
    test_a_child_that_fails_says_so_with_its_exception,
)
from test_effects import (
    test_req_l5_a_repeat_gets_the_first_receipt,
    test_tasks_that_call_at_once_send_once,
    test_threads_that_call_at_once_send_once,
)
from test_sagas import test_req_o3_what_was_done_is_taken_back_when_a_later_step_fails
from test_schedules import test_a_schedule_is_paused_resumed_and_removed
from test_waits import (
    test_a_delivery_that_comes_twice_is_one,
    test_a_run_sleeps_for_as_long_as_it_says,
    test_a_signal_that_comes_late,
    test_steps_side_by_side,
)
from test_workflows import (
    test_another_run_of_the_same_intent_repeats_no_effect,
    test_large_values,
    test_req_m1_a_model_is_asked_once_per_request_in_a_run,
    test_req_t1_the_same_key_is_the_same_run,
)

__all__ = [
    "test_a_cancel_goes_down",
    "test_a_child_that_fails_says_so_with_its_exception",
    "test_a_delivery_that_comes_twice_is_one",
    "test_a_run_sleeps_for_as_long_as_it_says",
    "test_a_schedule_is_paused_resumed_and_removed",
    "test_a_signal_that_comes_late",
    "test_another_run_of_the_same_intent_repeats_no_effect",
    "test_large_values",
    "test_req_a2_a_second_click_adds_nothing_and_is_told_the_first_answer",
    "test_req_a3_nothing_is_sent_before_whoever_asks_and_however_often",
    "test_req_l5_a_repeat_gets_the_first_receipt",
    "test_req_m1_a_model_is_asked_once_per_request_in_a_run",
    "test_req_o3_what_was_done_is_taken_back_when_a_later_step_fails",
    "test_req_t1_the_same_key_is_the_same_run",
    "test_steps_side_by_side",
    "test_tasks_that_call_at_once_send_once",
    "test_threads_that_call_at_once_send_once",
]


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


@pytest.fixture(autouse=True)
def nothing_happened_yet() -> None:
    """The worlds of the borrowed tests, as they find them at home."""
    for world in (test_approvals.WORLD, test_workflows.WORLD):
        world.calls.clear()


@pytest.fixture
def namespace() -> str:
    return f"n{uuid.uuid4().hex[:12]}"


@pytest.fixture
def app(server: Server, namespace: str) -> Iterator[Semel]:
    """An opened Semel, at the server."""
    app = Semel(server.url, token=server.token(namespace))
    yield app
    app.close()


@pytest.fixture
def any_app(app: Semel) -> Semel:
    """The same: whatever the kind of store, it is behind the server."""
    return app


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
