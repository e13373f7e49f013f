"""A server that dies between the signature and the commit: the sender comes again, one run."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import requests
from psycopg import sql
from standardwebhooks import Webhook
from webhook_kit import Answer, Server

SECRET = "whsec_c2VtZWwtc2VjcmV0LW9mLXRlc3Rz"

TRIGGERS = """
[triggers.orders]
workflow = "w"
scheme = "standard"
secret = "env:HOOK_SECRET"
"""


def start(folder: Path, store: str) -> Server:
    return Server(folder, store, TRIGGERS, HOOK_SECRET=SECRET)


def signed(secret: str = SECRET) -> Mapping[str, str]:
    now = datetime.now(tz=timezone.utc)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, "{}"),
    }


@contextmanager
def nobody_commits(store: str) -> Iterator[None]:
    """While it lasts the store can be read, and every commit waits."""
    if store.startswith("sqlite:"):
        turn = Path(f"{store.removeprefix('sqlite:')}-semel") / "turn"
        with turn.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            yield
        return
    parts = urlsplit(store)
    schema = parse_qs(parts.query)["schema"][0]
    server = parts._replace(query="").geturl()
    with psycopg.connect(server) as connection:
        table = sql.Identifier(schema, "runs")
        connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(table))
        yield
        connection.rollback()


def test_sec_22_a_kill_between_signature_and_commit_leaves_one_run_after_the_redelivery(
    tmp_path: Path, store_url: str
) -> None:
    server = start(tmp_path, store_url)
    answers: list[Answer] = []

    def deliver() -> None:
        try:
            answers.append(server.deliver("orders", signed(), "{}"))
        except requests.ConnectionError:
            """It died, as it should."""

    with nobody_commits(store_url):
        sender = threading.Thread(target=deliver)
        sender.start()
        time.sleep(0.7)
        # Signatures are judged all the while; only what is genuine waits for its commit.
        assert server.deliver("orders", signed("whsec_Zm9yZ2Vk"), "{}").status == 401
        assert (answers, sender.is_alive()) == ([], True), "2xx before the commit"
        server.kill()
        sender.join()
    assert answers == []

    server = start(tmp_path, store_url)
    assert server.runs() == []
    again = server.deliver("orders", signed(), "{}")
    assert again.status == 202
    # Acknowledged is durable: the next death changes nothing.
    server.kill()
    server = start(tmp_path, store_url)
    repeated = server.deliver("orders", signed(), "{}")
    assert (repeated.status, repeated.body["id"]) == (200, again.body["id"])
    assert [run["id"] for run in server.runs()] == [again.body["id"]]
    server.close()
