"""Schemathesis over the whole API: what it can think of meets a real `semel serve`.

`SEMEL_SCHEMATHESIS_REQUESTS=20000` asks for more, `SEMEL_SCHEMATHESIS_SEED=…` for others:

    SEMEL_SCHEMATHESIS_REQUESTS=20000 make pytest PYTEST_ARGS="-k schemathesis"
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from conftest import _postgres_url
from server_kit import Tenant, serving, tenant

REQUESTS = int(os.environ.get("SEMEL_SCHEMATHESIS_REQUESTS", "2000"))
SEED = os.environ.get("SEMEL_SCHEMATHESIS_SEED", "8")

SETTINGS = """
[limits]
hold = "20ms"
"""

ELSEWHERE = {
    # Machines of ours on both ends, with a shape of their own in any JSON: tests/remote holds it.
    "worker_hello": "the worker protocol",
    "worker_read": "the worker protocol",
    "worker_commit": "the worker protocol",
    "worker_hints": "the worker protocol: it waits for half a minute",
    # Refuses all that is not signed, and always in the same words: test_webhooks.py signs.
    "receive_webhook": "signed deliveries",
    "receive_webhook_in": "signed deliveries",
    # Ends the very token that asks.
    "revoke_token": "tests/http/access.rs",
}

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
]
"""All that there are but those for resources that are made and deleted, which a ledger does not
have, and that what fits its schema is taken: names, durations and patterns have rules that no
schema says."""


@dataclass(frozen=True)
class Tour:
    """What Schemathesis made of a server."""

    code: int
    text: str

    @property
    def requests(self) -> int:
        """How many it has sent."""
        found = re.search(r"(\d+) generated", self.text)
        return int(found[1]) if found else 0

    def is_clean(self) -> None:
        """Nothing was found, and it was let in: whoever is refused everywhere finds nothing."""
        assert self.code == 0, self.text
        assert "Missing authentication" not in self.text, self.text


def tour(of: Tenant, folder: Path, things: Things, examples: int, *more: str) -> Tour:
    """Lets Schemathesis loose with a token."""
    (folder / "schemathesis.toml").write_text(things.as_settings())
    leave_out = [word for name in ELSEWHERE for word in ("--exclude-operation-id", name)]
    line = [
        *(sys.executable, "-m", "schemathesis.cli"),
        *("run", f"{of.url}/openapi.json"),
        *("--header", f"Authorization: Bearer {of.token}"),
        *("--checks", ",".join(CHECKS)),
        *("--max-examples", str(examples)),
        *("--seed", SEED),
        *("--generation-database", "none"),
        *("--request-timeout", "30"),
        *("--continue-on-failure", "--no-color"),
        *leave_out,
        *more,
    ]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=3_000)
    return Tour(done.returncode, done.stdout + done.stderr)


@dataclass(frozen=True)
class Things:
    """What a namespace has, so that the requests meet something."""

    done: str
    doubt: str
    open: str
    run: str

    def as_settings(self) -> str:
        """The ids, by the paths that take them."""
        ids = {
            "/v1/effects/{id}": self.doubt,
            "/v1/effects/{id}/proof": self.done,
            "/v1/effects/{id}/supersede": self.done,
            "/v1/effects/{id}/void": self.done,
            "/v1/effects/{id}/resolve": self.doubt,
            "/v1/gate/{id}/done": self.open,
            "/v1/gate/{id}/failed": self.open,
            "/v1/runs/{id}": self.run,
            "/v1/runs/{id}/journal": self.run,
            "/v1/runs/{id}/proof": self.run,
            "/v1/runs/{id}/result": self.run,
            "/v1/runs/{id}/skip": self.run,
            "/v1/runs/{id}/cancel": self.run,
        }
        tables = [
            f'[[operations]]\ninclude-path = "{path}"\nparameters = {{ id = "{one}" }}\n'
            for path, one in ids.items()
        ]
        return "\n".join(tables)


def things(of: Tenant) -> Things:
    """Makes one of each."""

    def gate(key: str) -> str:
        answer = of.ask("POST", "/v1/gate", {"action": "mail", "key": key}).json()
        assert answer["decision"] == "go", answer
        return str(answer["id"])

    done, doubt = gate("done"), gate("doubt")
    assert of.ask("POST", f"/v1/gate/{done}/done", {"receipt": {"id": 1}}).status_code == 200
    assert of.ask("POST", f"/v1/gate/{doubt}/failed", {"applied": "unknown"}).status_code == 200
    run = of.ask("POST", "/v1/workflows/mail/runs", {"input": 1})
    assert run.status_code == 201, run.text
    schedule = {"workflow": "mail", "cron": "0 8 * * *"}
    assert of.ask("PUT", "/v1/schedules/daily", schedule).status_code == 201
    effect = [one.rsplit(".", 1)[0] for one in (done, doubt)]
    return Things(effect[0], effect[1], gate("open"), run.json()["id"])


@pytest.mark.slow
def test_schemathesis_finds_no_5xx_and_no_breach_with_a_token_of_an_admin(tmp_path: Path) -> None:
    with serving(tmp_path, f"sqlite:{tmp_path}/semel.db", SETTINGS) as server:
        admin = tenant(server)
        known = requests.get(f"{server.url}/openapi.json", timeout=40).json()
        names = {one["operationId"] for item in known["paths"].values() for one in item.values()}
        assert set(ELSEWHERE) <= names, "what is left out must be there"
        made = tour(admin, tmp_path, things(admin), max(2, (REQUESTS - 1_900) // 60))
        made.is_clean()
        assert made.requests >= REQUESTS * 2 // 3, made.text


def test_schemathesis_with_the_ids_of_another_namespace_changes_nothing_there(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, f"sqlite:{tmp_path}/semel.db", SETTINGS) as server:
        acme, bolt = tenant(server), tenant(server)
        theirs = things(acme)
        before = state(acme)
        tour(bolt, tmp_path, theirs, 2, "--phases", "fuzzing").is_clean()
        assert state(acme) == before


def state(of: Tenant) -> list[Any]:
    """All that a namespace has."""
    paths = ("effects", "runs", "schedules", "tokens", "audit", "triggers")
    return [of.ask("GET", f"/v1/{path}").json()["items"] for path in paths]


def test_schemathesis_on_postgres(tmp_path: Path) -> None:
    for store in _postgres_url():
        with serving(tmp_path, store, SETTINGS) as server:
            admin = tenant(server)
            tour(admin, tmp_path, things(admin), 2, "--phases", "fuzzing").is_clean()
