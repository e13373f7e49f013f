"""A forked child that outlives its parent: it holds none of the parent's locks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from conftest import Script

START = """
import json, multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from semel import Semel, SemelError, effect, transaction

@effect("send", key="{id}")
def send(id: str) -> str:
    return f"sent {id}"

def say(what):
    print(json.dumps(what), flush=True)

def idle():
    say(["child", os.getpid()])
    time.sleep(60)
"""

FORKS = {
    "os.fork": """
if os.fork() == 0:
    idle()
    os._exit(0)
""",
    "multiprocessing": """
multiprocessing.get_context("fork").Process(target=idle).start()
""",
    "ProcessPoolExecutor": """
pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
pool.submit(idle)
""",
}

PARENT = (
    START
    + """
app = Semel(os.environ["STORE"])
assert send("before") == "sent before"
{fork}
@transaction("stay", key="once")
def stay(tx) -> None:
    say(["in turn", os.getpid()])
    time.sleep(60)

stay()
"""
)

SLOW = (
    START
    + """
app = Semel(os.environ["STORE"])

@effect("slow", key="{id}")
def slow(id: str) -> str:
    say(["in attempt", os.getpid()])
    time.sleep(60)
    return "late"
{fork}
slow("k")
"""
)


@contextmanager
def killed_beside_its_child(script: Script, source: str) -> Iterator[None]:
    """Kills a program where it stands, while a child that it forked off lives on."""
    program = script.write("parent.py", source)
    parent = script.start(program)
    assert parent.stdout is not None
    said = dict(json.loads(parent.stdout.readline()) for _ in range(2))
    child = said.pop("child")
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        os.kill(child, 0)
        yield
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("fork", FORKS)
def test_a_child_of_a_killed_writer_keeps_nobody_from_writing(script: Script, fork: str) -> None:
    with killed_beside_its_child(script, PARENT.replace("{fork}", FORKS[fork])):
        said = script.said(
            START
            + """
app = Semel(os.environ["STORE"])
say([send("before"), send("after")])
"""
        )
    assert said == ["sent before", "sent after"]


@pytest.mark.parametrize("fork", FORKS)
def test_the_death_of_a_process_is_seen_while_its_child_lives(script: Script, fork: str) -> None:
    with killed_beside_its_child(script, SLOW.replace("{fork}", FORKS[fork])):
        said = script.said(
            START
            + """
app = Semel(os.environ["STORE"])

@effect("slow", key="{id}")
def slow(id: str) -> str:
    return "again"

try:
    slow("k")
except SemelError as error:
    say(error.code)
"""
        )
    # At once, and not after a lease of 30 seconds.
    assert said == "in_doubt"


def test_a_stopped_holder_is_named(script: Script) -> None:
    source = PARENT.replace("{fork}", "")
    parent = script.start(script.write("parent.py", source))
    assert parent.stdout is not None
    [_, pid] = json.loads(parent.stdout.readline())
    parent.send_signal(signal.SIGSTOP)
    try:
        started = time.monotonic()
        code, text = script.said(
            START
            + """
try:
    Semel(os.environ["STORE"])
except SemelError as error:
    say([error.code, str(error)])
"""
        )
        assert code == "store_busy"
        assert f"process {pid} is stopped and has held the turn to write since" in text
        assert time.monotonic() - started < 30
        line = ["-m", "semel", "--store", script.environment["STORE"], "doctor"]
        done: subprocess.CompletedProcess[str] = script.run(*line)
        assert f"process {pid} is stopped" in done.stdout, done
        assert f"kill -CONT {pid}" in done.stdout, done
    finally:
        parent.kill()
        parent.wait()
