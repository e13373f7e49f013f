"""`semel spec`: what a file declares, written down and held against what is committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"
NOWHERE = "http://127.0.0.1:9"
NEEDED = {
    "MODEL_URL": NOWHERE,
    "CRM_URL": NOWHERE,
    "SHOP_URL": NOWHERE,
    "STRIPE_URL": NOWHERE,
    "SMTP_ADDRESS": "127.0.0.1:9",
}
SPECIFIED = ["refund_approval", "saga_order", "stripe_charge", "triage"]

APP = '''
"""An application."""
from dataclasses import dataclass
import semel
from semel import (Semel, WorkflowContext, approval, at_most_once, concurrency, effect, function,
                   model, native_key, tool, transaction, workflow)
import helpers

print("loaded")  # talk, and no part of the spec
app = Semel("sqlite:nowhere.db")

@dataclass
class Ticket:
    id: str
    url: str

@model
async def classify(text: str) -> str:
    """Asks."""
    return text

@function(retries=0)
def tidy(text: str) -> str:
    return text

@effect("refund", key="{order_id}", contract=at_most_once)
def refund(charge: str, order_id: str) -> str:
    """Pays back."""
    return charge

@effect("charge", key=["{order_id}", "v{version}"], contract=native_key("24h"), rate="10/1s",
        compensate_with=refund, retries=2, deadline="30s", replay_window="7d",
        downstream_key="charge:{order_id}", on_doubt="continue",
        approval=approval(expires="7d", four_eyes=True, requested_by="bot"))
def charge(order_id: str, version: int) -> Ticket:
    """Charges | the card.

    More of it."""
    return helpers.send(order_id)

@tool
@effect("note", key=lambda case_id: case_id, fingerprint=["case_id"], contract=native_key("24h"))
def note(case_id: str, words: str):
    """Notes."""
    return helpers.forget(case_id)

@transaction("book", key="{order_id}")
def book(tx, order_id: str) -> int:
    """Books."""
    return 1

async def buy(ctx, order_id):
    await ctx.step(charge, order_id, 1)

@workflow(concurrency=concurrency(5, key="{order_id}", mode="reject"))
async def order(ctx: WorkflowContext, order_id: str) -> str:
    """Orders."""
    said = await ctx.step(classify, order_id)
    await buy(ctx, order_id)
    return await ctx.step(tidy, said)
'''
HELPERS = """
import httpx
import semel

def send(order_id):
    return httpx.post("x", headers={"Idempotency-Key": semel.intent().downstream_key})

def forget(case_id):
    return httpx.post("x")
"""


def spec(app: Path, *more: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "semel", "spec", str(app), *more]
    environment = {**os.environ, **NEEDED}
    for name in ("LEASE", "DEADLINE", "SETTLE_WINDOW", "SEMEL_STORE"):
        environment.pop(name, None)
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path / "app.py"


@pytest.mark.parametrize("name", SPECIFIED)
def test_req_s1_the_spec_of_an_example_is_the_one_committed(name: str) -> None:
    folder = EXAMPLES / name
    ended = spec(folder / "app.py", "--check", str(folder / "SPEC.md"))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_req_s1_an_application_is_written_down_with_all_it_declares(app: Path) -> None:
    ended = spec(app, "--json")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.startswith("loaded")
    found = json.loads(ended.stdout)
    effects = {one["action"]: one for one in found["effects"]}
    assert sorted(effects) == ["book", "charge", "note", "refund"]
    charge = effects["charge"]
    assert charge["action_protected"] == "`charge`"
    assert charge["business_intent"] == "Charges | the card."
    keyed = "`order_id` and `version`, as `[{order_id}, v{version}]`"
    assert charge["key_fields"].startswith(keyed)
    assert charge["storage_location"].endswith("in its sqlite store")
    assert charge["replay_window"].startswith("7d ")
    assert charge["result_record"] == "`Ticket` with `id` and `url`"
    assert charge["contract"] == "`native_key` (retention 1d)"
    more = "\n".join(charge["more"])
    for word in ("7d is a no", "may not decide", "`refund`", "10 sends in 1s", "charge:{", "goes"):
        assert word in more, word
    assert "by the function `a lambda`" in effects["note"]["key_fields"]
    assert effects["book"]["contract"] == "`transaction`"
    (flow,) = found["workflows"]
    assert flow["effects"] == ["charge", "refund"]
    assert (flow["models"], flow["functions"]) == (["classify"], ["tidy"])
    assert flow["concurrency"].startswith("at most 5 runs at once; one run at a time for each")


def test_the_store_of_the_application_is_named_and_not_opened(app: Path, tmp_path: Path) -> None:
    app.write_text(APP.replace("sqlite:nowhere.db", f"sqlite:{tmp_path / 'users.db'}"))
    ended = spec(app, "--json")
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.glob("users.db*"))
    # Nobody listens there, and nobody needs to.
    app.write_text(APP.replace("sqlite:nowhere.db", "postgres://nobody@127.0.0.1:9/none"))
    ended = spec(app, "--json")
    assert ended.returncode == 0, ended.stderr
    effects = {one["action"]: one for one in json.loads(ended.stdout)["effects"]}
    assert effects["charge"]["storage_location"].endswith("in its postgres store")


def test_req_s2_the_checklist_is_answered_from_the_code(app: Path) -> None:
    effects = {one["action"]: one for one in json.loads(spec(app, "--json").stdout)["effects"]}

    def answers(action: str) -> list[str]:
        return [check["answer"] for check in effects[action]["checklist"]]

    # The helper in the other file passes the key on.
    assert answers("charge") == ["yes"] * 6
    # Neither it nor its helper does.
    assert answers("note") == ["yes", "no", "yes", "no", "yes", "yes"]
    assert answers("refund") == ["yes", "attention", "yes", "attention", "yes", "yes"]
    assert "`classify`" in effects["charge"]["checklist"][5]["why"]


def test_a_spec_that_is_old_is_refused_with_what_differs(app: Path, tmp_path: Path) -> None:
    page = tmp_path / "SPEC.md"
    assert spec(app, "--output", str(page)).stdout == ""
    assert spec(app, "--check", str(page)).returncode == 0
    data = tmp_path / "spec.json"
    assert spec(app, "--json", "--output", str(data)).returncode == 0
    assert json.loads(data.read_text())["source"] == "app.py"
    # Lines move, and nothing else changes.
    app.write_text("\n\n" + APP)
    assert spec(app, "--check", str(page)).returncode == 0
    app.write_text(APP.replace('replay_window="7d"', 'replay_window="9d"'))
    ended = spec(app, "--check", str(page))
    assert ended.returncode == 4
    assert "- | Replay window | 7d from" in ended.stdout
    assert "+ | Replay window | 9d from" in ended.stdout
    assert "SPEC.md is not what the code declares" in ended.stderr


def test_what_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    assert spec(tmp_path / "nothing.py").returncode == 3
    broken = tmp_path / "broken.py"
    broken.write_text("import os\nos.environ['NOT_THERE']\n")
    ended = spec(broken)
    assert ended.returncode == 1
    assert "cannot be loaded: KeyError('NOT_THERE')" in ended.stderr
    refused = tmp_path / "refused.py"
    refused.write_text("from semel import effect\n@effect('a', key='{b}')\ndef f(c): ...\n")
    assert "there is no parameter `b`" in spec(refused).stderr


def test_declarations_are_judged(app: Path) -> None:
    code = (
        "import json, pathlib, sys\n"
        "from semel._native import lint_declarations\n"
        "from semel._spec import registry_of\n"
        "made = registry_of(pathlib.Path(sys.argv[1]))\n"
        "print(lint_declarations(json.dumps(made)))\n"
    )
    line = [sys.executable, "-c", code, str(app)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    found = {(one["action"], one["name"]) for one in json.loads(ended.stdout)}
    assert found == {("note", "native-key-not-passed-on")}
