"""Workflows: how they are declared, what a step may be, and what a crash leaves."""

from __future__ import annotations

import asyncio
import functools
import signal
from dataclasses import dataclass
from typing import Any

import pytest
import semel
from conftest import Script, World
from pydantic import BaseModel
from semel import (
    RunPaused,
    Semel,
    SemelError,
    StepContext,
    WorkflowContext,
    effect,
    function,
    model,
    native_key,
    workflow,
)

WORLD = World()
"""The outside world of the workflows below; each test has keys of its own."""


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Inbound(BaseModel):
    request_id: str
    text: str


class Classification(BaseModel):
    subject: str
    urgent: bool


@dataclass
class Ticket:
    id: str
    subject: str


class Result(BaseModel):
    ticket: str
    urgent: bool


@function(retries=3)
async def classify(inbound: Inbound) -> Classification:
    WORLD.do("classify")
    return Classification(subject=inbound.text.upper(), urgent="fire" in inbound.text)


@effect("crm", key="{request_id}", fingerprint=["request_id"], contract=native_key("24h"))
async def create_once(request_id: str, classification: Classification) -> Ticket:
    WORLD.do("create")
    assert semel.intent().downstream_key
    return Ticket(f"T-{request_id}", classification.subject)


@workflow
async def triage(ctx: WorkflowContext, inbound: Inbound) -> Result:
    classification = await ctx.step(classify, inbound)
    ticket = await ctx.step(create_once, inbound.request_id, classification)
    return Result(ticket=f"{ticket.id}:{ticket.subject}", urgent=classification.urgent)


def test_req_t1_the_same_key_is_the_same_run(any_app: Semel) -> None:
    inbound = Inbound(request_id="42", text="printer on fire")
    first = any_app.start(triage, inbound, key="event-1")
    assert first.result(timeout=20) == Result(ticket="T-42:PRINTER ON FIRE", urgent=True)
    again = any_app.start(triage, inbound, key="event-1")
    assert (first.attached, again.attached) == (False, True)
    assert again.id == first.id
    assert again.result(timeout=20) == first.result(timeout=20)
    assert WORLD.calls == ["classify", "create"]
    by_id = any_app.run(first.id, triage)
    assert by_id.result(timeout=20).ticket == "T-42:PRINTER ON FIRE"
    assert any_app.run(first.id).result(timeout=20) == {
        "ticket": "T-42:PRINTER ON FIRE",
        "urgent": True,
    }
    assert first.state == "done"


def test_another_input_under_the_same_key_is_refused(app: Semel) -> None:
    app.start(triage, Inbound(request_id="1", text="a"), key="e").result(timeout=20)
    with pytest.raises(SemelError) as caught:
        app.start(triage, Inbound(request_id="1", text="b"), key="e")
    assert caught.value.code == "input_changed"


def test_another_run_of_the_same_intent_repeats_no_effect(app: Semel) -> None:
    inbound = Inbound(request_id="42", text="printer on fire")
    one = app.start(triage, inbound, key="event-1").result(timeout=20)
    other = app.start(triage, inbound, key="event-2").result(timeout=20)
    assert one == other
    assert WORLD.calls.count("create") == 1


CRASH = """
import json, os, signal, sys
from pydantic import BaseModel
from dataclasses import dataclass
import semel
from semel import Semel, WorkflowContext, effect, function, native_key, workflow

def happened(what):
    with open(os.path.join(os.environ["FOLDER"], "happened"), "a") as file:
        file.write(what + chr(10))

def die(where):
    if os.environ.get("DIE") == where:
        os.kill(os.getpid(), signal.SIGKILL)

class Inbound(BaseModel):
    request_id: str

class Classification(BaseModel):
    subject: str

@dataclass
class Ticket:
    id: str
    subject: str

@function
async def classify(inbound: Inbound) -> Classification:
    happened("classify")
    die("in step")
    return Classification(subject=inbound.request_id * 2)

@effect("crm", key="{request_id}", contract=native_key(), lease="2s")
async def create_once(request_id: str, c: Classification) -> Ticket:
    happened("create " + semel.intent().downstream_key)
    die("in effect")
    return Ticket("T-" + request_id, c.subject)

@effect("mail", key="{request_id}", contract=native_key(), lease="2s")
def mail(request_id: str, ticket: Ticket) -> str:
    happened("mail " + semel.intent().downstream_key)
    die("in mail")
    return "sent about " + ticket.id

@workflow
async def triage(ctx: WorkflowContext, inbound: Inbound) -> dict:
    c = await ctx.step(classify, inbound)
    t = await ctx.step(create_once, inbound.request_id, c)
    m = await ctx.step(mail, inbound.request_id, t)
    return {"subject": c.subject, "ticket": t.id, "mail": m}

app = Semel(os.environ["STORE"], lease="2s")
handle = app.start(triage, Inbound(request_id="42"), key="event")
print(json.dumps(handle.result(timeout=50)))
"""


@pytest.mark.parametrize("where", ["in step", "in effect", "in mail"])
def test_req_l12_a_killed_process_repeats_nothing_that_is_recorded(
    any_script: Script, where: str
) -> None:
    script = any_script
    program = script.write("triage.py", CRASH)
    script.environment["DIE"] = where
    assert script.run(program).returncode == -signal.SIGKILL
    script.environment["DIE"] = ""
    done = script.run(program, timeout=55)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        '{"subject": "4242", "ticket": "T-42", "mail": "sent about T-42"}'
    )
    happened = (script.folder / "happened").read_text().split("\n")[:-1]
    names = [line.split()[0] for line in happened]
    repeated = {"in step": "classify", "in effect": "create", "in mail": "mail"}[where]
    assert names == sorted(["classify", "create", "mail", repeated])
    sent = [line for line in happened if line.startswith(repeated)]
    assert sent[0] == sent[1], "the repeat has the same downstream key"


def test_decorators_with_and_without_parentheses(app: Semel) -> None:
    @function
    def bare(x: int) -> int:
        return x + 1

    @function()
    def empty(x: int) -> int:
        return x + 10

    @function(name="named", retries=1)
    def named(x: int) -> int:
        return x + 100

    @workflow()
    async def flow(ctx: WorkflowContext, x: int) -> int:
        return await ctx.step(named, await ctx.step(empty, await ctx.step(bare, x)))

    assert (bare.name, empty.name, named.name) == ("bare", "empty", "named")
    assert bare(1) == 2, "called, it is still the function"
    assert app.start(flow, 1).result(timeout=20) == 112


class Service:
    """Steps and workflows that are methods."""

    def __init__(self, add: int) -> None:
        self.add = add

    @function
    def sync(self, x: int) -> int:
        return x + self.add

    @function
    async def later(self, ctx: StepContext, x: int) -> str:
        return f"{x + self.add} {ctx.attempt} {bool(ctx.run_id)}"

    async def plain(self, x: int) -> int:
        return x + self.add

    @workflow
    async def flow(self, ctx: WorkflowContext, x: int) -> list[Any]:
        return [
            await ctx.step(self.sync, x),
            await ctx.step(self.later, x),
            await ctx.step(self.plain, x),
            await ctx.step(functools.partial(self.sync, x + 1)),
        ]


def test_methods_are_steps_and_workflows(app: Semel) -> None:
    service = Service(10)
    assert app.start(service.flow, 1).result(timeout=20) == [11, "11 1 True", 11, 12]


def _ctx_by_name(ctx, x):  # type: ignore[no-untyped-def]
    return f"{type(ctx).__name__} {x}"


def _ctx_by_type(anything: WorkflowContext, x: int) -> str:
    return f"{type(anything).__name__} {x}"


def _not_ctx(ctx: int) -> int:
    return ctx


async def _async_plain(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


@workflow
async def many_shapes(ctx: WorkflowContext) -> list[Any]:
    return [
        await ctx.step(_ctx_by_name, 1),
        await ctx.step(_ctx_by_type, 2),
        await ctx.step(_not_ctx, 3),
        await ctx.step(_async_plain, 4),
        await ctx.step(functools.partial(_async_plain, 5)),
        await ctx.step(functools.partial(functools.partial(_async_plain), x=6)),
        await ctx.step("lambda", lambda: 7),
        await ctx.step("gives a coroutine", lambda: _async_plain(8)),
        await ctx.step("with arguments", lambda a, b: a + b, 4, b=5),
        await ctx.step(max, [1, 10]),
        await ctx.step("type", dict, a=11),
        await ctx.step(_async_plain, 6, step_id="mine"),
        await ctx.step("again", functools.partial(_async_plain, 6.5)),
    ]


def test_what_a_step_may_be(app: Semel, script: Script, sqlite_url: str) -> None:
    handle = app.start(many_shapes)
    assert handle.result(timeout=20) == [
        *("StepContext 1", "StepContext 2", 3, 8, 10, 12, 7, 16, 9, 10, {"a": 11}, 12, 13.0),
    ]
    done = script.run("-m", "semel", "--store", sqlite_url, "runs", "show", handle.id)
    assert done.returncode == 0, done.stderr
    for name in ("_ctx_by_name", "lambda", "gives a coroutine", "mine", "again"):
        assert name in done.stdout


@workflow
async def _no_name(ctx: WorkflowContext) -> None:
    await ctx.step(lambda: 1)


@workflow
async def _twice(ctx: WorkflowContext) -> list[int]:
    return [await ctx.step("a", lambda: 1, step_id="x"), await ctx.step("b", int, step_id="x")]


@workflow
async def _inner(ctx: WorkflowContext) -> None:
    await ctx.step(_no_name)


def test_what_is_no_step_is_refused(app: Semel) -> None:
    with pytest.raises(RunPaused, match="name_invalid"):
        app.start(_no_name).result(timeout=20)
    with pytest.raises(RunPaused, match="input_invalid"):
        app.start(_inner).result(timeout=20)
    with pytest.raises(RunPaused, match="step_repeated"):
        app.start(_twice).result(timeout=20)


def test_what_is_no_workflow_is_refused() -> None:
    with pytest.raises(TypeError, match="async def"):
        workflow(lambda ctx: None)

    async def no_context() -> None: ...

    with pytest.raises(TypeError, match="context"):
        workflow(no_context)
    with pytest.raises(SemelError):
        workflow(name="no/slash here")(_no_name.function)


@model
def ask(prompt: str, temperature: float = 0.0) -> str:
    WORLD.do(prompt)
    return f"answer {len(WORLD)} to {prompt}"


@workflow
async def asks(ctx: WorkflowContext) -> list[str]:
    return [
        await ctx.step(ask, "why"),
        await ctx.step(ask, prompt="why"),
        await ctx.step(ask, "why", temperature=0.5),
        *await ctx.gather(ctx.step(ask, "how"), ctx.step(ask, "how")),
    ]


def test_req_m1_a_model_is_asked_once_per_request_in_a_run(any_app: Semel) -> None:
    first, same, other, how, shared = any_app.start(asks).result(timeout=20)
    assert first == same == "answer 1 to why"
    assert other == "answer 2 to why"
    assert how == shared == "answer 3 to how"
    assert WORLD.calls == ["why", "why", "how"]
    any_app.start(asks).result(timeout=20)
    assert len(WORLD) == 6, "another run asks for itself"


@workflow
async def many_inputs(ctx: WorkflowContext, a: int, b: Inbound, *, c: str = "c") -> list[Any]:
    return [a, b.text, c]


@workflow
async def optional_input(ctx: WorkflowContext, a: Inbound | None = None) -> Any:
    return None if a is None else a.text


def test_inputs_of_runs(app: Semel) -> None:
    inbound = Inbound(request_id="1", text="t")
    assert app.start(many_inputs, 1, inbound).result(timeout=20) == [1, "t", "c"]
    assert app.start(many_inputs, 1, b=inbound, c="d").result(timeout=20) == [1, "t", "d"]
    assert app.start(optional_input).result(timeout=20) is None
    assert app.start(optional_input, inbound).result(timeout=20) == "t"
    assert app.start("optional_input", {"request_id": "1", "text": "n"}).result(timeout=20) == "n"
    with pytest.raises(SemelError):
        app.start(optional_input, "no inbound")
    with pytest.raises(TypeError):
        app.start(many_inputs, 1)


@workflow
async def large(ctx: WorkflowContext, size: int) -> int:
    return len(await ctx.step("large", lambda: "x" * size))


def test_large_values(any_app: Semel) -> None:
    assert any_app.start(large, 2**20 - 100).result(timeout=20) == 2**20 - 100
    with pytest.raises(SemelError) as caught:
        any_app.start(large, 2**20 + 1).result(timeout=20)
    assert caught.value.code in ("input_invalid", "step_failed", "run_paused")
