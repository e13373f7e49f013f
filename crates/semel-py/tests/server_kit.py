"""What the tests over HTTP share: one server for all of them, and a namespace for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from webhook_kit import Server

SETTINGS = """
[limits]
hold = "2s"
"""


@contextmanager
def serving(folder: Path, store: str, settings: str = SETTINGS) -> Iterator[Server]:
    """A server for a while. What it was asked to keep must not keep it from ending."""
    server = Server(folder, store, settings)
    try:
        yield server
    finally:
        server.close()


@dataclass(frozen=True)
class Tenant:
    """A namespace with a token for it."""

    url: str
    namespace: str
    token: str

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Sends a request of this namespace."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=40)

    def effect(self, action: str, key: str) -> dict[str, Any]:
        """An effect, as the ledger has it."""
        query = {"action": action, "key": key}
        headers = {"Authorization": f"Bearer {self.token}"}
        found = requests.get(f"{self.url}/v1/effects", query, headers=headers, timeout=40)
        items = found.json()["items"]
        assert len(items) == 1, items
        item = items[0]
        assert isinstance(item, dict)
        return item


def tenant(server: Server, role: str = "admin", namespace: str | None = None) -> Tenant:
    """A namespace that nobody else uses, and a token of this role."""
    namespace = namespace or f"t{uuid.uuid4().hex[:12]}"
    line = ["tokens", "create", "--role", role, "--namespace", namespace, "--label", "test"]
    return Tenant(server.url, namespace, server.command(*line)["token"])
