"""Proofs of effects and runs, as Python gets them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from conftest import World
from semel import AsyncSemel, Semel, WorkflowContext, effect, native_key, workflow


def test_req_v2_an_effect_is_proven_with_how_its_key_is_made(app: Semel, world: World) -> None:
    @effect("crm-ticket", key="{request_id}", contract=native_key(retention="24h"))
    def create_ticket(request_id: str, subject: str) -> object:
        return world.do((request_id, subject))

    assert app.proof(create_ticket, "42") is None
    for _ in range(3):
        create_ticket("42", "printer on fire")
    proof = app.proof(create_ticket, "42")
    assert proof is not None
    statement = proof["proof"]["statement"]
    assert statement["verdict"]["finding"] == "done"
    told = statement["effects"][0]
    assert told["derived"] == "{request_id}"
    assert told["key_parts"] == [{"part": "42", "equals": ["/request_id"]}]
    assert [(one["door"], one["at_least"]) for one in told["repeats"]] == [("call", 2)]


def test_other_ways_to_make_a_key_are_told_too(app: Semel, world: World) -> None:
    def by_case(case: str) -> list[str]:
        return ["case", case]

    @effect("listed", key=["{case}", "v1"])
    def listed(case: str) -> object:
        return world.do(case)

    @effect("made", key=by_case)
    def made(case: str) -> object:
        return world.do(case)

    listed("7")
    made("7")
    for name, key, want in (
        ("listed", ["7", "v1"], "[{case}, v1]"),
        ("made", ["case", "7"], "by_case(case)"),
    ):
        proof = app.proof(name, key)
        assert proof is not None
        assert proof["proof"]["statement"]["effects"][0]["derived"].endswith(want)


def test_a_run_is_proven_and_checked_without_its_store(
    app: Semel, world: World, tmp_path: Path
) -> None:
    @effect("crm-ticket", key="{request_id}")
    def create_ticket(request_id: str) -> object:
        return world.do(request_id)

    @workflow
    async def triage(ctx: WorkflowContext, request_id: str) -> object:
        return await ctx.step(create_ticket, request_id)

    handle = app.start(triage, "42", key="event-7")
    handle.result(timeout=30)
    proof = handle.proof()
    statement = proof["proof"]["statement"]
    assert statement["verdict"]["finding"] == "done"
    assert statement["run"]["chain"]["verified"]
    assert [one["kind"] for one in statement["effects"][0]["mentions"]] == ["planned", "effect"]
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(proof))
    verify = [sys.executable, "-m", "semel", "proof", "verify", str(file)]
    assert subprocess.run(verify, capture_output=True).returncode == 0
    file.write_text(json.dumps(proof).replace("event-7", "event-8"))
    assert subprocess.run(verify, capture_output=True).returncode == 1


def test_async_code_gets_the_same(tmp_path: Path, world: World) -> None:
    @effect("crm-ticket", key="{request_id}")
    async def create_ticket(request_id: str) -> object:
        return world.do(request_id)

    @workflow
    async def triage(ctx: WorkflowContext, request_id: str) -> object:
        return await ctx.step(create_ticket, request_id)

    async def main() -> None:
        async with AsyncSemel(f"sqlite:{tmp_path}/semel.db") as app:
            handle = await app.start(triage, "42", key="event-7")
            await handle.result(timeout=30)
            of_run = await handle.proof()
            of_effect = await app.proof(create_ticket, "42")
        assert of_effect is not None
        for proof in (of_run, of_effect):
            assert proof["proof"]["statement"]["verdict"]["finding"] == "done"

    asyncio.run(main())
