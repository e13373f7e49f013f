"""Kills the triage in the worst moments and counts what its destinations have: `make demo-python`.

The CRM and the mail server stand in for real ones, on loopback, and do whatever they are asked for,
a second ticket included. The worker is a process of its own, and is killed for real.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from destinations import Crm, Fault, Model, Smtp

APP = Path(__file__).parent / "triage" / "app.py"

# How soon a killed worker is missed, and its last request counts as landed or lost. In production
# these are a minute or so; here nobody wants to wait.
SHORT_TIMES = {"LEASE": "1s", "DEADLINE": "2s", "SETTLE_WINDOW": "500ms"}


class Stage:
    """The destinations, and the workers that write to them."""

    def __init__(self, folder: Path) -> None:
        self.model, self.crm, self.smtp = Model(folder), Crm(folder), Smtp(folder)
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if "SEMEL" not in name}
        self._environment = {
            **inherited,
            **SHORT_TIMES,
            "SEMEL_STORE": f"sqlite:{folder / 'semel.db'}",
            "MODEL_URL": self.model.start(),
            "CRM_URL": self.crm.start(),
            "SMTP_ADDRESS": self.smtp.start(),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a worker: `app.py` with these words."""
        command = [sys.executable, str(APP), *words]
        return subprocess.Popen(
            command, env=self._environment, cwd=self.folder, stdout=subprocess.PIPE, text=True
        )

    def work(self, *words: str) -> Any:
        """Lets a worker do its work to the end. Returns what it printed."""
        worker = self.start(*words)
        printed, _ = worker.communicate()
        if worker.returncode != 0:
            raise SystemExit(f"a worker failed: app.py {' '.join(words)}")
        return json.loads(printed) if printed else None

    def work_until_killed(self, destination: Crm | Smtp, request: str) -> None:
        """Kills a worker when the destination has done what it asks for, before it can hear so."""
        worker = self.start(request)
        destination.faults.add(Fault("kill", "after", pid=worker.pid))
        if worker.wait() != -signal.SIGKILL:
            raise SystemExit("the worker was not killed")

    def count(self, request: str) -> Mapping[str, int]:
        """What the destinations have of a request, by their own books."""
        tickets = self.crm.book.lines("applied", what="ticket", reference=request)
        mails = self.smtp.book.lines("applied", what="mail")
        return {
            "tickets": len(tickets),
            "mails": sum(request in mail["subject"] for mail in mails),
        }

    def close(self) -> None:
        """Ends the destinations."""
        for destination in (self.model, self.crm, self.smtp):
            destination.stop()


def say(words: str) -> None:
    """Tells whoever watches, at once."""
    print(words, flush=True)


def show(stage: Stage, request: str) -> Mapping[str, int]:
    """Tells what the destinations have of a request."""
    found = stage.count(request)
    say(f"   the destinations have tickets: {found['tickets']}, mails: {found['mails']}")
    return found


def kill_at_the_crm(stage: Stage) -> bool:
    """The CRM honours keys, so the next worker asks again and gets the first ticket."""
    request = "request-1"
    say("1. SIGKILL after the CRM wrote the ticket, before anybody recorded it")
    stage.work_until_killed(stage.crm, request)
    show(stage, request)
    say("   a new worker starts")
    [first, again] = stage.work(request)[request]
    say(f"   it ends with {first['ticket']['id']}; delivered again, with {again['ticket']['id']}")
    arrived = [line["key"] for line in stage.crm.book.lines("arrived")]
    say(f"   the CRM was asked {len(arrived)} times; different keys: {len(set(arrived))}")
    found = show(stage, request)
    say("   once more from the start: every answer comes out of the ledger")
    stage.work(request)
    called = len(stage.crm.book.lines("arrived")) - len(arrived)
    say(f"   the CRM was asked {called} times")
    return first == again and called == 0 and set(found.values()) == {1}


def kill_at_the_mail_server(stage: Stage) -> bool:
    """Mail cannot be asked for, so nobody sends it twice: a person looks."""
    request = "request-2"
    say("2. SIGKILL after the mail server took the mail, which no key can protect")
    stage.work_until_killed(stage.smtp, request)
    show(stage, request)
    say("   a new worker starts")
    [first, _] = stage.work(request)[request]
    say(f"   it does not send again, and says so: {json.dumps(first)}")
    [mail] = [
        line for line in stage.smtp.book.lines("applied", what="mail") if request in line["subject"]
    ]
    say(f"   a person finds {mail['message_id'][:13]}…> at the mail server: done")
    stage.work("settle", request, mail["message_id"])
    [end, _] = stage.work(request)[request]
    say(f"   the run ends with {end['ticket']['id']}")
    found = show(stage, request)
    return first == {"in_doubt": "ack-mail"} and set(found.values()) == {1}


def main() -> int:
    """Plays both scenes. The exit code says whether they ended as they should."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            is_fine = kill_at_the_crm(stage) & kill_at_the_mail_server(stage)
        finally:
            stage.close()
    say("every request: 1 ticket, 1 mail" if is_fine else "error: that was not once")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
