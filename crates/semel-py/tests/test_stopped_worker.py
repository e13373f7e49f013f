"""A worker that is stopped between its permit and its function, and wakes after another worker has
taken over, sends nothing and runs no step again."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Script, until

FLOW = """
import os, signal
from pathlib import Path
from semel import Semel, Worker, WorkflowContext, effect, function, native_key, workflow
from semel._work import SendWork, StepWork

FOLDER = Path(os.environ["FOLDER"])
KIND = {"send": SendWork, "step": StepWork}[os.environ["KIND"]]

def note(line):
    with open(FOLDER / "log", "a") as log:
        log.write(f"{line}\\n")

@effect("send", key="{id}", lease="1s", contract=native_key(retention="24h"))
def send(id: str) -> str:
    note("send")
    return id

@function
def step(id: str) -> str:
    note("step")
    return id

@workflow
async def flow(ctx: WorkflowContext) -> str:
    await ctx.step(send, "1")
    return await ctx.step(step, "1")

context = KIND.context

def stopped(work, argument):
    # Armed, and about to begin in this thread: the permit is looked at behind this.
    try:
        (FOLDER / "stopped").touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGSTOP)
    return context(work, argument)

KIND.context = stopped

with Semel(os.environ["STORE"]) as app:
    Worker(app, workflows=[flow], lease="1s").start()
    assert app.start(flow, key="1").result(timeout=60) == "1"
"""


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("kind", ["send", "step"])
def test_req_o8_a_worker_that_wakes_after_its_lease_does_nothing_twice(
    any_script: Script, kind: str
) -> None:
    any_script.environment["KIND"] = kind
    program = any_script.write("flow.py", FLOW)
    log = any_script.folder / "log"
    first = any_script.start(program)
    try:
        until(lambda: first.poll() is not None or _is_stopped(first.pid))
        assert first.poll() is None, first.communicate()[1]
        second = any_script.run(program, timeout=60)
        assert second.returncode == 0, second.stderr
        # A process knows its server's clock to a second, which is as long as this lease.
        time.sleep(1.5)
        os.kill(first.pid, signal.SIGCONT)
        _, said = first.communicate(timeout=60)
        assert first.returncode == 0, said
    finally:
        first.kill()
        first.wait()
    assert Counter(log.read_text().split()) == {"send": 1, "step": 1}
