"""A process that is forked off a program which has opened a Semel."""

from __future__ import annotations

import pytest
from conftest import Script

START = """
import json, multiprocessing, os, sys, time
import semel
from semel import Semel, SemelError, effect, workflow, WorkflowContext

def happened(what):
    with open(os.path.join(os.environ["FOLDER"], "happened"), "a") as file:
        file.write(what + chr(10))

@effect("send", key="{id}")
def send(id: str) -> str:
    happened(id)
    return f"sent {id}"

@effect("send-later", key="{id}")
async def send_later(id: str) -> str:
    happened(id)
    return f"sent {id}"

@workflow
async def flow(ctx: WorkflowContext, x: int) -> int:
    return await ctx.step("double", lambda: x * 2)

def tell(what):
    with open(os.path.join(os.environ["FOLDER"], "told"), "w") as file:
        json.dump(what, file)

def told():
    with open(os.path.join(os.environ["FOLDER"], "told")) as file:
        return json.load(file)

def code_of(call):
    try:
        return call()
    except SemelError as error:
        return error.code

def wait(pid):
    until = time.monotonic() + 15
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung"
"""

OPENED = (
    START
    + """
app = Semel(os.environ["STORE"])
assert send("before") == "sent before"
handle = app.start(flow, 1, key="k")
assert handle.result(timeout=20) == 2
"""
)

STILL_WELL = """
assert send("after") == "sent after"
assert send("before") == "sent before"
assert app.start(flow, 4).result(timeout=20) == 8
"""

CALLS = """[
    code_of(lambda: send("child")),
    code_of(lambda: __import__("asyncio").run(send_later("child"))),
    code_of(lambda: app.start(flow, 2)),
    code_of(lambda: app.find("send", "before")),
    code_of(lambda: handle.status()),
    code_of(lambda: handle.signal("go")),
]"""


@pytest.mark.parametrize("end", ["os._exit(7)", "sys.exit(7)"])
def test_a_child_may_not_use_what_its_parent_opened(script: Script, end: str) -> None:
    said = script.said(
        OPENED
        + f"""
child = os.fork()
if child == 0:
    tell({CALLS})
    {end}
code = wait(child)
{STILL_WELL}
print(json.dumps([code, told()]))
"""
    )
    assert said == [7, ["forked"] * 6]
    assert (script.folder / "happened").read_text().split() == ["before", "after"]


@pytest.mark.parametrize("end", ["os._exit(7)", "sys.exit(7)", "app.close(); sys.exit(7)"])
def test_a_child_that_does_nothing_ends_quietly(script: Script, end: str) -> None:
    program = script.write(
        "quiet.py",
        OPENED
        + f"""
child = os.fork()
if child == 0:
    {end}
code = wait(child)
{STILL_WELL}
print(json.dumps(code))
""",
    )
    done = script.run(program)
    assert (done.returncode, done.stdout.strip()) == (0, "7"), done.stderr
    assert done.stderr == ""


def test_a_child_may_not_open_its_own_either(script: Script) -> None:
    """What its SQLite knows of locks was copied, and the locks were not."""
    said = script.said(
        OPENED
        + f"""
child = os.fork()
if child == 0:
    tell([code_of(lambda: Semel(os.environ["STORE"] + suffix)) for suffix in ("", "2")])
    os._exit(0)
code = wait(child)
{STILL_WELL}
print(json.dumps([code, told()]))
"""
    )
    assert said == [0, ["forked", "forked"]]


def test_a_child_of_a_program_that_only_imported_opens_its_own(script: Script) -> None:
    said = script.said(
        START
        + """
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        app = Semel(os.environ["STORE"])
        send(f"{number}")
        send("shared")
        app.close()
        sys.exit(0)
    children.append(child)
codes = [wait(child) for child in children]
print(json.dumps(codes))
"""
    )
    assert said == [0, 0, 0]
    assert sorted((script.folder / "happened").read_text().split()) == ["0", "1", "2", "shared"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(script: Script, method: str) -> None:
    said = script.said(
        START
        + f"""
def work(number):
    app = Semel(os.environ["STORE"])
    with app:
        found = send("shared"), send(str(number))
    app.close()
    return list(found)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        found = pool.map_async(work, range(4)).get(timeout=30)
    print(json.dumps(found))
"""
    )
    assert said == [["sent shared", f"sent {number}"] for number in range(4)]
    happened = (script.folder / "happened").read_text().split()
    assert sorted(happened) == ["0", "1", "2", "3", "shared"]


def test_a_pool_of_an_opened_program_is_refused_and_does_not_hang(script: Script) -> None:
    said = script.said(
        OPENED
        + f"""
def work(number):
    return code_of(lambda: send(str(number)))

context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    found = pool.map_async(work, range(4)).get(timeout=20)
{STILL_WELL}
print(json.dumps(found))
"""
    )
    assert said == ["forked"] * 4


def test_a_fork_while_the_parent_is_busy_harms_nobody(script: Script) -> None:
    said = script.said(
        OPENED
        + """
import threading
stop = threading.Event()
sent = []

def busy(place):
    number = 0
    while not stop.is_set():
        number += 1
        sent.append(send(f"busy-{place}-{number}"))

threads = [threading.Thread(target=busy, args=(place,)) for place in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(7 if code_of(lambda: send("child")) == "forked" else 1)
    codes.append(wait(child))
stop.set()
for thread in threads:
    thread.join(20)
print(json.dumps([codes, len(sent) > 0, len(sent) == len(set(sent))]))
"""
    )
    assert said == [[7] * 10, True, True]


def test_a_subprocess_is_no_fork(script: Script) -> None:
    said = script.said(
        OPENED
        + f"""
import subprocess
line = [sys.executable, "-m", "semel", "--store", os.environ["STORE"], "effects", "ls"]
done = subprocess.run(line, capture_output=True, text=True, timeout=20)
{STILL_WELL}
print(json.dumps([done.returncode, "before" in done.stdout]))
"""
    )
    assert said == [0, True]
