"""The stand-ins are honest: they repeat what the real ones repeat, and count what they did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from destinations import (
    Cms,
    Crm,
    Fault,
    HubSpot,
    MessageQueue,
    Records,
    Slack,
    Smtp,
    StripeApi,
)
from destinations.faults import read_faults
from destinations.http import HttpDestination
from example_stage import EXAMPLES


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Starts destinations, and ends them."""
    all_of_them: list[HttpDestination | Smtp] = []

    def start(kind: type[HttpDestination] | type[Smtp]) -> Any:
        one = kind(tmp_path)
        one.start()
        all_of_them.append(one)
        return one

    yield start
    for one in all_of_them:
        one.stop()


def ticket(crm: Crm, key: str | None, reference: str = "1") -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return httpx.post(f"{crm.address}/tickets", json={"reference": reference}, headers=headers)


def charge(stripe: StripeApi, key: str, amount: int = 100) -> httpx.Response:
    form = {"amount": amount, "currency": "eur"}
    headers = {"Idempotency-Key": key, "Authorization": "Bearer sk_test"}
    return httpx.post(f"{stripe.address}/v1/payment_intents", data=form, headers=headers)


def test_crm_answers_a_repeated_key_with_the_first_ticket(started: Any) -> None:
    crm: Crm = started(Crm)
    assert ticket(crm, "k").json() == ticket(crm, "k").json()
    assert ticket(crm, "k", reference="2").status_code == 422
    assert len(crm.book.lines("applied")) == 1
    assert ticket(crm, None).json()["id"] != ticket(crm, None).json()["id"]
    assert len(crm.book.lines("applied")) == 3
    assert len(crm.book.lines("arrived")) == 5


def test_stripe_keeps_its_rules_for_keys(started: Any) -> None:
    stripe: StripeApi = started(StripeApi)
    first, again = charge(stripe, "k"), charge(stripe, "k")
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    other = charge(stripe, "k", amount=200)
    assert (other.status_code, other.json()["error"]["type"]) == (400, "idempotency_error")
    stripe.faults.add(Fault("stall", seconds=1.0))
    slow = threading.Thread(target=charge, args=(stripe, "slow"))
    slow.start()
    while len(stripe.book.lines("arrived", key="slow")) < 1:
        time.sleep(0.01)
    assert charge(stripe, "slow").status_code == 409
    slow.join()
    assert charge(stripe, "slow").status_code == 200
    assert len(stripe.book.lines("applied")) == 2


@pytest.mark.parametrize(("phase", "count"), [("before", 0), ("after", 1)])
def test_a_reset_leaves_what_was_applied(started: Any, phase: Any, count: int) -> None:
    crm: Crm = started(Crm)
    crm.faults.add(Fault("reset", phase))
    with pytest.raises(httpx.ReadError):
        ticket(crm, "k")
    assert len(crm.book.lines("applied")) == count
    assert ticket(crm, "k").status_code == 201
    assert len(crm.book.lines("applied")) == 1


def test_a_fault_is_for_the_request_it_names(started: Any) -> None:
    crm: Crm = started(Crm)
    [fault] = read_faults('[{"kind": "status", "status": 429, "request": 2, "on": "POST /tick"}]')
    crm.faults.add(fault)
    assert [ticket(crm, None).status_code for _ in range(3)] == [201, 429, 201]
    crm.faults.add(Fault("status", "after", on="PATCH"))
    assert ticket(crm, None).status_code == 201


def test_a_request_may_land_after_its_sender_is_gone(started: Any) -> None:
    slack: Slack = started(Slack)
    sender = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    slack.faults.add(Fault("land_late", seconds=0.2, pid=sender.pid))
    post = {"channel": "#orders", "text": "late"}
    with pytest.raises(httpx.ReadError):
        httpx.post(f"{slack.address}/api/chat.postMessage", json=post)
    assert slack.book.lines("applied") == []
    assert sender.wait(10) == -signal.SIGKILL
    until(lambda: len(slack.book.lines("applied", text="late")) == 1)


def test_a_request_that_was_cut_in_the_middle_is_none(started: Any) -> None:
    crm: Crm = started(Crm)
    host, port = crm.address.removeprefix("http://").split(":")
    head = b"POST /tickets HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 18\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head + b'{"refer')
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    assert crm.book.lines("arrived") == []
    assert ticket(crm, "k").status_code == 201


def until(is_true: Any) -> None:
    """Waits for something that comes."""
    end = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)


def test_hubspot_finds_what_it_created_and_creates_twice_when_told_twice(started: Any) -> None:
    hubspot: HubSpot = started(HubSpot)
    url = f"{hubspot.address}/crm/v3/objects/contacts"
    ours = {"propertyName": "token", "operator": "EQ", "value": "1"}
    search = {"filterGroups": [{"filters": [ours]}]}
    for count in range(3):
        assert httpx.post(f"{url}/search", json=search).json()["total"] == count
        httpx.post(url, json={"properties": {"token": "1"}})


def test_cms_creates_only_where_nothing_is(started: Any) -> None:
    cms: Cms = started(Cms)
    url, guard = f"{cms.address}/pages/a/r1", {"If-None-Match": "*"}
    codes = [httpx.put(url, json={"n": n}, headers=guard).status_code for n in (1, 2)]
    assert codes == [201, 412]
    assert httpx.get(url).json()["n"] == 1


def test_records_turn_a_write_on_an_old_version_away(started: Any) -> None:
    records: Records = started(Records)
    url = f"{records.address}/records/a"

    def write(version: int, value: int) -> int:
        guard = {"If-Match": f'"{version}"'}
        return httpx.put(url, json={"value": value, "by": "me"}, headers=guard).status_code

    assert [write(0, 10), write(0, 20), write(1, 30)] == [200, 412, 200]
    assert httpx.get(url).json() == {"version": 2, "value": 30, "by": "me"}
    assert httpx.get(f"{url}/versions/1").json()["value"] == 10
    assert httpx.get(f"{url}/versions/3").status_code == 404


def test_the_queue_delivers_until_it_is_acknowledged(started: Any) -> None:
    queue: MessageQueue = started(MessageQueue)

    def ask(path: str, body: dict[str, Any]) -> Any:
        return httpx.post(f"{queue.address}{path}", json=body).json()

    ask("/messages", {"event_id": "e"})
    first = ask("/receive", {})["message"]
    assert ask("/receive", {}) == {"message": None, "left": 1}, "hidden for a while"
    until(lambda: ask("/receive", {})["message"] is not None)
    ask("/ack", {"id": first["id"]})
    assert ask("/receive", {}) == {"message": None, "left": 0}


@pytest.mark.parametrize(
    ("fault", "wanted", "count"),
    [
        (None, None, 1),
        (Fault("status", status=451), smtplib.SMTPDataError, 0),
        (Fault("reset", "before"), smtplib.SMTPServerDisconnected, 0),
        (Fault("reset", "after"), smtplib.SMTPServerDisconnected, 1),
    ],
)
def test_smtp_fails_at_the_end_of_data(
    started: Any, fault: Fault | None, wanted: Any, count: int
) -> None:
    smtp: Smtp = started(Smtp)
    if fault:
        smtp.faults.add(fault)
    host, port = smtp.address.split(":")
    mail = "Message-ID: <1@example>\r\nSubject: hello\r\n\r\n.a line with a dot\r\n"
    caught = None
    with smtplib.SMTP(host, int(port)) as client:
        try:
            client.sendmail("a@example", ["b@example"], mail)
        except (smtplib.SMTPException, OSError) as error:
            caught = error
    assert wanted is None or isinstance(caught, (wanted, ConnectionResetError)), caught
    assert len(smtp.book.lines("applied", to=["b@example"], message_id="<1@example>")) == count


def test_a_destination_runs_by_itself_and_is_controlled_over_http(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "destinations", "crm", "--folder", str(tmp_path)]
    env = {**os.environ, "DESTINATION_FAULTS": '[{"kind": "status", "status": 503}]'}
    with subprocess.Popen(command, cwd=EXAMPLES, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        url = f"{told['address']}/tickets"
        try:
            assert httpx.post(url, json={"reference": "1"}).status_code == 503
            httpx.post(told["control"], content='[{"kind": "status", "status": 429}]')
            assert httpx.post(url, json={"reference": "1"}).status_code == 429
            assert httpx.post(url, json={"reference": "1"}).status_code == 201
            assert httpx.get(told["control"]).text.count('"arrived"') == 3
        finally:
            process.terminate()
        assert process.wait(10) == 0
