"""The worker and the command line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import semel
from conftest import Script, until
from semel import AsyncSemel, Semel, Worker, WorkflowContext, effect, workflow

APP = """
import os, time
from semel import WorkflowContext, effect, function, tool, workflow

def happened(what):
    with open(os.path.join(os.environ["FOLDER"], "happened"), "a") as file:
        file.write(what + chr(10))

@function
def slow(seconds: float) -> str:
    happened("slow begins")
    time.sleep(seconds)
    happened("slow ends")
    return "slow"

@effect("send", key="{id}")
async def send(id: str) -> str:
    happened("send")
    return "sent"

@workflow
async def flow(ctx: WorkflowContext, seconds: float) -> list[str]:
    first = await ctx.step(slow, seconds)
    return [first, await ctx.step(send, ctx.key), VERSION]

VERSION = "one"
"""


class Workers:
    """Workers in processes of their own; those that are left at the end are killed."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Starts one, and waits until it works."""
        process = self.script.start(*words)
        self.started.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "worker: workflows" in line, line + process.stderr.read()
        return process

    def end(self) -> None:
        """Ends those that are left."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def happened(self) -> list[str]:
        """What the steps have done."""
        path = self.script.folder / "happened"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def workers(script: Script) -> Iterator[Workers]:
    script.write("app.py", APP)
    workers = Workers(script)
    yield workers
    workers.end()


def console_script() -> str:
    found = Path(sysconfig.get_path("scripts")) / "semel"
    name = str(found) if found.exists() else shutil.which("semel")
    if name is None:
        pytest.skip("the package is not installed: there is no command `semel`")
    return name


def test_a_worker_offers_what_is_in_a_file(workers: Workers, app: Semel) -> None:
    store = workers.script.environment["STORE"]
    process = workers.start("-m", "semel", "worker", "--store", store, "app.py")
    assert app.start("flow", 0, key="k").result(timeout=20) == ["slow", "sent", "one"]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "nothing is lost" in err


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_the_store_may_be_named_in_each_way(workers: Workers, app: Semel, where: str) -> None:
    store = workers.script.environment["STORE"]
    if where == "environment":
        workers.script.environment["SEMEL_STORE"] = store
        workers.start("-m", "semel", "worker", "app.py")
    elif where == "before":
        workers.start("-m", "semel", "--store", store, "worker", "app.py")
    else:
        workers.start("-m", "semel", "worker", "app.py", "--store", store)
    assert app.start("flow", 0).result(timeout=20)[0] == "slow"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_stopped_finishes_its_step(
    workers: Workers, app: Semel, number: signal.Signals
) -> None:
    store = workers.script.environment["STORE"]
    process = workers.start("-m", "semel", "worker", "--store", store, "app.py")
    handle = app.start("flow", 1.5, key="k")
    until(lambda: "slow begins" in workers.happened())
    process.send_signal(number)
    assert process.wait(20) == 0
    assert workers.happened() == ["slow begins", "slow ends"], "it ends, and nothing new begins"
    workers.start("-m", "semel", "worker", "--store", store, "app.py")
    assert handle.result(timeout=20) == ["slow", "sent", "one"]
    assert workers.happened() == ["slow begins", "slow ends", "send"]


def test_a_worker_that_is_killed_loses_nothing(workers: Workers, app: Semel) -> None:
    store = workers.script.environment["STORE"]
    process = workers.start("-m", "semel", "worker", "--store", store, "app.py", "--lease", "2s")
    handle = app.start("flow", 0.5, key="k")
    until(lambda: "slow begins" in workers.happened())
    process.kill()
    workers.start("-m", "semel", "worker", "--store", store, "app.py")
    assert handle.result(timeout=30) == ["slow", "sent", "one"]
    assert workers.happened().count("send") == 1


def test_a_worker_that_reloads_runs_the_new_code(workers: Workers, app: Semel) -> None:
    store = workers.script.environment["STORE"]
    process = workers.start("-m", "semel", "worker", "--store", store, "app.py", "--reload")
    assert app.start("flow", 0).result(timeout=20)[2] == "one"
    workers.script.write("app.py", APP.replace('VERSION = "one"', 'VERSION = "two"'))
    until(lambda: app.start("flow", 0).result(timeout=20)[2] == "two")
    workers.script.write("app.py", "this is no Python")
    time.sleep(1)
    workers.script.write("app.py", APP.replace('VERSION = "one"', 'VERSION = "three"'))
    assert app.start("flow", 0, key="three").result(timeout=30)[2] == "three"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("missing.py", None, "missing.py"),
        ("empty.py", "x = 1", "declares no workflow"),
        ("broken.py", "def", "SyntaxError"),
        ("raises.py", "import nowhere_at_all", "nowhere_at_all"),
        ("notes.txt", "some text", "notes.txt"),
    ],
)
def test_a_file_that_is_none_is_told(
    script: Script, name: str, source: str | None, said: str
) -> None:
    if source is not None:
        script.write(name, source)
    done = script.run("-m", "semel", "worker", "--store", script.environment["STORE"], name)
    assert done.returncode in (1, 2, 3)
    assert said in done.stderr
    assert "error" in done.stderr.lower()
    assert done.stdout == ""


@pytest.mark.parametrize(
    "words", [["--store", "mysql://x", "app.py"], ["app.py", "--lease", "soon"], []]
)
def test_a_wrong_line_is_told(workers: Workers, words: list[str]) -> None:
    done = workers.script.run("-m", "semel", "worker", *words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr


def test_the_command_line_is_the_same_everywhere(script: Script, app: Semel) -> None:
    store = script.environment["STORE"]

    @effect("send", key="{id}")
    def send(id: str) -> str:
        return "sent"

    send("42")
    for line in ([sys.executable, "-m", "semel"], [console_script()]):

        def run(*words: str, line: list[str] = line) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*line, *words], env=script.environment, capture_output=True, text=True, timeout=20
            )

        version = run("--version")
        assert version.returncode == 0
        assert version.stdout.split() == ["semel", semel.__version__]
        listed = run("--store", store, "effects", "ls")
        assert listed.returncode == 0, listed.stderr
        assert "send" in listed.stdout and "42" in listed.stdout
        shown = run("--store", store, "--json", "effects", "show", "send/42")
        assert json.loads(shown.stdout)["receipt"] == "sent"
        assert run("--store", store, "effects", "show", "send/nothing").returncode == 3
        assert run("no-such-command").returncode == 2
        assert run("--store", f"{store}.not-there", "effects", "ls").returncode not in (0, 2)


def test_the_command_does_not_import_what_it_does_not_need(script: Script) -> None:
    done = script.run("-X", "importtime", "-m", "semel", "--version")
    assert done.returncode == 0
    assert "pydantic" not in done.stderr


@workflow
async def here(ctx: WorkflowContext) -> str:
    return await ctx.step("step", lambda: "here")


def test_a_worker_in_this_process(sqlite_url: str) -> None:
    worker = Worker(Semel(sqlite_url), workflows=[here])
    client = Semel(sqlite_url)
    worker.start()
    assert client.start("here").result(timeout=20) == "here"
    worker.stop()
    worker.run()
    client.close()


def test_a_worker_in_an_event_loop(sqlite_url: str) -> None:
    import asyncio

    async def main() -> Any:
        worker = Worker(AsyncSemel(sqlite_url), workflows=[here])
        serving = asyncio.create_task(worker.serve())
        async with AsyncSemel(sqlite_url) as client:
            found = await (await client.start("here")).result(timeout=20)
        worker.stop()
        await asyncio.wait_for(serving, 20)
        return found

    assert asyncio.run(main()) == "here"
    with pytest.raises(TypeError):
        Worker(AsyncSemel(sqlite_url)).run()
