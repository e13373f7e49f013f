"""`semel dev`: server, console and a worker that starts again, in one command."""

from __future__ import annotations

import signal
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
from conftest import Script, until
from semel import Semel

APP = """
from semel import WorkflowContext, workflow

@workflow
async def flow(ctx: WorkflowContext) -> list[str]:
    await ctx.wait_for_signal("go")
    return ["VERSION"]
"""


@pytest.fixture
def dev(script: Script) -> Iterator[subprocess.Popen[str]]:
    script.write("app.py", APP.replace("VERSION", "one"))
    store = script.environment["STORE"]
    words = ("-m", "semel", "dev", "app.py", "--store", store, "--listen", "127.0.0.1:0")
    process = script.start(*words)
    yield process
    # Not killed: its worker would go on, and hold the pipes.
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=60)


def until_said(process: subprocess.Popen[str], words: str) -> str:
    """Reads on until the process has said this."""
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, f"it ended without {words!r}: {said}"
        said += line
    return said


def test_new_code_is_live_and_a_run_started_before_still_ends(
    dev: subprocess.Popen[str], script: Script, app: Semel
) -> None:
    assert dev.stdout is not None
    url = dev.stdout.readline().strip().removeprefix("listening on ")
    with urllib.request.urlopen(f"{url}/console", timeout=20) as page:
        assert b"Overview" in page.read()
    until_said(dev, "worker: workflows flow")
    before = app.start("flow", key="before")
    until(lambda: before.state == "waiting")
    script.write("app.py", "async def flow(:\n")
    assert "SyntaxError" in until_said(dev, "the worker stays as it was")
    script.write("app.py", APP.replace("VERSION", "two"))
    until_said(dev, "worker: workflows flow")
    after = app.start("flow", key="after")
    for run in (before, after):
        run.signal("go", "gone")
        assert run.result(timeout=20) == ["two"]
    dev.send_signal(signal.SIGINT)
    assert dev.wait(timeout=40) == 0
