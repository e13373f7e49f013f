"""Releases: which version of the code runs start on, and trying a draft before it is live."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
import semel
from conftest import Script, World, until
from semel import (
    AsyncSemel,
    ReleaseUnknown,
    Semel,
    SemelError,
    Worker,
    WorkflowContext,
    effect,
    function,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


@effect("send", key="{id}")
def send(id: str, by: str) -> str:
    WORLD.do((semel.intent().namespace, semel.intent().key, by))
    return f"sent by {by}"


@function
def sends_directly(id: str) -> str:
    return send(f"direct-{id}", "step")


def code(by: str) -> Any:
    """The workflow as it is in one version of the code."""

    @workflow(name="leaf")
    async def leaf(ctx: WorkflowContext, id: str) -> str:
        return await ctx.step(send, f"leaf-{id}", by)

    @workflow(name="mail")
    async def mail(ctx: WorkflowContext, id: str) -> list[str]:
        await ctx.step(sends_directly, id)
        return [by, await ctx.step(send, id, by), await ctx.child(leaf, id)]

    return mail


def known(app: Semel) -> dict[str, Any]:
    return {one.name: one for one in app.releases() if one.workflow == "mail"}


def test_req_s3_a_draft_is_tried_in_its_twin_and_then_promoted(store_url: str) -> None:
    live, draft = Semel(store_url, release="r1"), Semel(store_url)
    live.offer(code("one"))
    until(lambda: "r1" in known(live))
    draft.worker([code("two")], draft=True, release="r2").start()
    until(lambda: "r2" in known(live))
    assert (known(live)["r1"].is_live, known(live)["r2"].is_live) == (True, False)
    assert known(live)["r2"].is_draft

    tried = live.start("mail", "a", key="a", release="r2")
    assert tried.result(timeout=30)[0] == "two"
    assert {call[0] for call in WORLD.calls} == {"default~draft"}, "steps and children, too"
    assert len(WORLD) == 3
    assert live.find(send, "a") is None
    assert draft.draft().find(send, "a") is not None
    assert live.draft().run(tried.id).state == "done"
    plain = live.start("mail", "a", key="a")
    assert plain.result(timeout=30)[0] == "one", "another run, and live effects of its own"
    assert WORLD.calls[3:] == [
        ("default", "direct-a", "step"),
        ("default", "a", "one"),
        ("default", "leaf-a", "one"),
    ]

    draft.promote("mail", "r2", reason="it works", actor="ann")
    draft.promote("leaf", "r2", reason="it works", actor="ann")
    until(lambda: known(draft)["r2"].is_live)
    WORLD.calls.clear()
    assert draft.start("mail", "b", key="b").result(timeout=30)[0] == "two"
    assert {call[0] for call in WORLD.calls} == {"default"}
    assert draft.roll_back("mail", reason="after all not") == "r1"
    assert draft.start("mail", "c", key="c").result(timeout=30)[0] == "one"
    live.close()
    draft.close()


def waiting(by: str, **options: Any) -> Any:
    @workflow(name="waiting", **options)
    async def waiting(ctx: WorkflowContext) -> str:
        await ctx.wait_for_signal("go")
        return by

    return waiting


def test_req_s3_a_run_stays_on_the_release_it_began_with(store_url: str) -> None:
    one = Semel(store_url, release="r1")
    old = one.start(waiting("one"), key="old")
    until(lambda: old.state == "waiting")
    two = Semel(store_url, release="r2")
    new = two.start(waiting("two", pin="strict"), key="new")
    until(lambda: {release.name for release in two.releases()} == {"r1", "r2"})
    for handle in (old, new):
        handle.signal("go")
    assert (old.result(timeout=30), new.result(timeout=30)) == ("one", "two")
    assert (old.status()["release"], new.status()["release"]) == ("r1", "r2")
    assert [one.is_strict for one in two.releases()] == [False, True]
    one.close()
    two.close()


def test_a_release_that_nobody_knows_is_refused(app: Semel) -> None:
    app.offer(waiting("one"), release="r1")
    until(app.releases)
    with pytest.raises(ReleaseUnknown):
        app.start("waiting", release="r9")
    with pytest.raises(ReleaseUnknown):
        app.promote("waiting", "r9", reason="why not")
    with pytest.raises(ReleaseUnknown):
        app.roll_back("waiting", reason="there was none before")
    with pytest.raises(SemelError) as caught:
        app.offer(waiting("two"), release="no name")
    assert caught.value.code == "name_invalid"
    with pytest.raises(ValueError, match="strict"):
        waiting("three", pin="loose")


def test_the_digest_of_the_source_is_the_release_by_default(app: Semel) -> None:
    mail = code("one")
    handle = app.start(mail, "x")
    handle.result(timeout=20)
    assert handle.status()["release"] == mail.release


def test_releases_for_async_code(sqlite_url: str) -> None:
    async def main() -> Any:
        async with AsyncSemel(sqlite_url, release="r1") as app:
            await app.offer(waiting("one"))
            worker = Worker(app, [code("two")], release="r2", draft=True)
            serving = asyncio.ensure_future(worker.serve())
            while len(await app.releases()) < 3:
                await asyncio.sleep(0.02)
            handle = await app.start("mail", "a", release="r2")
            tried = await handle.result(timeout=20)
            await app.promote("mail", "r2", reason="it works")
            live = {one.workflow: one.name for one in await app.releases() if one.is_live}
            found = await app.draft().find(send, "a")
            worker.stop()
            await serving
            return tried[0], live, found is not None

    tried, live, found = asyncio.run(main())
    assert (tried, live, found) == ("two", {"mail": "r2", "waiting": "r1"}, True)


DRAFT = """
from semel import WorkflowContext, effect, workflow

@effect("say", key="{word}")
def say(word: str) -> str:
    return word.upper()

@workflow
async def speak(ctx: WorkflowContext, word: str) -> str:
    return await ctx.step(say, word)
"""


def test_a_worker_of_a_draft(script: Script, sqlite_url: str) -> None:
    path = script.write("draft.py", DRAFT)
    line = ["-m", "semel", "--store", sqlite_url, "worker", "--draft", "--release", "r2"]
    process = script.start(*line, path)
    app = Semel(sqlite_url)
    try:
        until(app.releases)
        assert app.start("speak", "hello", release="r2").result(timeout=20) == "HELLO"
        assert app.find("say", "hello") is None
        assert app.draft().find("say", "hello") is not None
    finally:
        app.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
    assert process.returncode == 0
