"""Tools for agents: a model that calls again, in other words, repeats nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
import semel
from conftest import World
from pydantic import BaseModel
from semel import (
    InputChanged,
    Semel,
    SemelError,
    ToolUndeclared,
    WorkflowContext,
    effect,
    function,
    tool,
    workflow,
)

WORLD = World()


@pytest.fixture(autouse=True)
def new_world() -> None:
    WORLD.calls.clear()
    WORLD.answers.clear()


class Address(BaseModel):
    street: str
    city: str = "Bern"


@tool
@effect("ticket", key="{case_id}", fingerprint=["case_id", "kind"])
def create_ticket(case_id: str, kind: Literal["bug", "wish"], words: str) -> dict[str, Any]:
    """Creates a ticket."""
    WORLD.do((case_id, kind, words))
    return {"id": f"T-{case_id}"}


@tool(name="send_parcel")
@effect("parcel", key="{case_id}", fingerprint=[])
async def parcel(case_id: str, to: Address, weight: int = 1) -> str:
    """Sends a parcel."""
    WORLD.do((case_id, to, weight))
    return f"to {to.street} in {to.city}"


@tool(read=True)
def look_up(query: str) -> list[str]:
    """Looks something up."""
    WORLD.do(query)
    return [query]


@tool(read=True)
@function(retries=1)
async def look_up_later(query: str) -> str:
    WORLD.do(query)
    return query


TOOLS = [create_ticket, parcel, look_up, look_up_later]


def test_req_o5_a_tool_that_says_nothing_is_refused() -> None:
    def neither(x: int) -> int:
        return x

    with pytest.raises(ToolUndeclared, match="neither") as caught:
        tool(neither)
    assert caught.value.code == "tool_undeclared"
    assert "read=True" in caught.value.detail
    for declared in (function(neither), effect("e", key="{x}", fingerprint=["x"])(neither)):
        with pytest.raises(ToolUndeclared):
            tool(read=not isinstance(declared, semel.Function))(declared)
    with pytest.raises(ToolUndeclared):
        semel.tools([neither])  # type: ignore[list-item]


def test_an_effect_must_say_which_arguments_count() -> None:
    with pytest.raises(SemelError, match="fingerprint") as caught:
        tool(effect("e", key="{x}")(lambda x: x))
    assert caught.value.code == "input_invalid"


def test_what_is_bound_is_hidden_from_the_model() -> None:
    box = semel.tools(TOOLS, case_id="42")
    openai, anthropic = box.schemas("openai"), box.schemas("anthropic")
    assert [one["function"]["name"] for one in openai] == [one["name"] for one in anthropic]
    assert "case_id" not in json.dumps([openai, anthropic])
    first = openai[0]
    assert first["type"] == "function"
    assert first["function"]["description"] == "Creates a ticket."
    assert first["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "kind": {"enum": ["bug", "wish"], "type": "string"},
            "words": {"type": "string"},
        },
        "required": ["kind", "words"],
        "additionalProperties": False,
    }
    sent = anthropic[1]
    assert sent["name"] == "send_parcel"
    assert sent["input_schema"]["required"] == ["to"]
    assert "street" in json.dumps(sent["input_schema"])
    assert set(sent) == {"name", "description", "input_schema"}
    with pytest.raises(ValueError, match="style"):
        box.schemas("gemini")  # type: ignore[arg-type]


def test_references_in_a_schema_lead_somewhere() -> None:
    schema = semel.tools([parcel], case_id="42").schemas("anthropic")[0]["input_schema"]
    text = json.dumps(schema)
    if "$ref" in text:
        reference = schema["properties"]["to"]["$ref"]
        found: Any = schema
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found["properties"]["city"]["default"] == "Bern"


def test_req_o6_a_model_that_calls_again_gets_the_first_receipt(app: Semel) -> None:
    box = semel.tools(TOOLS, case_id="42")
    first = box.call("create_ticket", {"kind": "bug", "words": "it burns"})
    again = box.call("create_ticket", '{"kind": "bug", "words": "the printer is on fire"}')
    assert first == again == {"id": "T-42"}
    assert WORLD.calls == [("42", "bug", "it burns")]
    with pytest.raises(InputChanged):
        box.call("create_ticket", {"kind": "wish", "words": "it burns"})
    assert len(WORLD) == 1
    assert semel.tools(TOOLS, case_id="43").call(
        "create_ticket", {"kind": "bug", "words": "x"}
    ) == {"id": "T-43"}


def test_async_tools(app: Semel) -> None:
    box = semel.tools(TOOLS, case_id="42")

    async def main() -> list[Any]:
        first = await box.acall("send_parcel", {"to": {"street": "Gasse"}})
        again = await box.acall("send_parcel", {"to": {"street": "Gasse 1"}, "weight": 2})
        return [first, again, await box.acall("look_up", {"query": "q"})]

    assert asyncio.run(main()) == ["to Gasse in Bern", "to Gasse in Bern", ["q"]]
    assert WORLD.calls == [("42", Address(street="Gasse"), 1), "q"]
    with pytest.raises(SemelError, match="acall"):
        box.call("send_parcel", {"to": {"street": "x"}})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_ticket", "no json"),
        ("create_ticket", "[1]"),
        ("create_ticket", "null"),
        ("create_ticket", {"kind": "bug", "words": "x", "case_id": "other"}),
        ("create_ticket", {"kind": "bug", "words": "x", "unknown": 1}),
        ("create_ticket", {"kind": "crime", "words": "x"}),
        ("create_ticket", {"kind": "bug"}),
        ("create_ticket", {}),
        ("create_ticket", ""),
        ("delete_everything", {}),
    ],
)
def test_what_a_model_makes_up_is_refused(app: Semel, name: str, arguments: Any) -> None:
    box = semel.tools(TOOLS, case_id="42")
    with pytest.raises(SemelError) as caught:
        box.call(name, arguments)
    assert caught.value.code == ("input_invalid" if name == "create_ticket" else "tool_undeclared")
    assert not WORLD.calls


def test_a_toolbox_is_checked_when_it_is_made() -> None:
    with pytest.raises(SemelError, match="nobody"):
        semel.tools(TOOLS, nobody=1)
    with pytest.raises(SemelError) as caught:
        semel.tools([look_up, look_up])
    assert caught.value.code == "name_invalid"
    box = semel.tools(TOOLS)
    assert [one.name for one in box] == [
        *("create_ticket", "send_parcel", "look_up", "look_up_later"),
    ]
    assert "case_id" in box.schemas()[0]["function"]["parameters"]["properties"]


@workflow
async def agent(ctx: WorkflowContext, case_id: str) -> list[Any]:
    box = semel.tools(TOOLS, case_id=case_id)
    return [
        await box.step(ctx, "look_up", {"query": "q"}),
        await box.step(ctx, "look_up_later", {"query": "r"}, step_id="mine"),
        await box.step(ctx, "create_ticket", {"kind": "bug", "words": "first"}),
        await box.step(ctx, "create_ticket", {"kind": "bug", "words": "second"}),
        await box.step(ctx, "send_parcel", {"to": {"street": "Gasse"}}),
    ]


def test_tools_are_steps_of_a_run(app: Semel) -> None:
    ticket = {"id": "T-42"}
    want = [["q"], "r", ticket, ticket, "to Gasse in Bern"]
    assert app.start(agent, "42").result(timeout=20) == want
    assert len(WORLD) == 4
    assert create_ticket("42", "bug", "third") == ticket, "called, it is still the effect"
    assert len(WORLD) == 4
