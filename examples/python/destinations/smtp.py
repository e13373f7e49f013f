"""A mail server. It accepts whatever it is sent, as often as it is sent."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes
from email.policy import default as policy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from destinations.book import Book
from destinations.faults import AnswerWith, Cut, FaultPlan, LandLate
from destinations.http import reset


class Smtp:
    """Faults happen at the end of DATA: `before` the mail is accepted, or `after`."""

    name: ClassVar[str] = "smtp"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        self.book = Book(folder / f"{self.name}.jsonl")
        self.faults = faults or FaultPlan()
        self._server = _Server(self, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def start(self) -> str:
        """Begins to listen, and returns the address."""
        self._thread.start()
        return self.address

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Ends it."""
        self.faults.end_stalls()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.book.close()

    def take(self, recipients: list[str], mail: bytes) -> str:
        """A whole mail has arrived. Returns the answer."""
        try:
            self.faults.meet("DATA", "before")
            self._accept(recipients, mail)
            self.faults.meet("DATA", "after")
        except AnswerWith as fault:
            return f"{fault.status} as planned"
        except LandLate as late:
            self._accept_later(recipients, mail, late.seconds)
            raise Cut from late
        return "250 accepted"

    def _accept(self, recipients: list[str], mail: bytes) -> None:
        found = message_from_bytes(mail, policy=policy)
        facts = {"message_id": found["message-id"], "subject": found["subject"]}
        self.book.applied("mail", to=recipients, **facts)

    def _accept_later(self, recipients: list[str], mail: bytes, seconds: float) -> None:
        def land() -> None:
            self.faults.wait(seconds)
            self._accept(recipients, mail)

        threading.Thread(target=land, daemon=True).start()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, destination: Smtp, port: int) -> None:
        super().__init__(("127.0.0.1", port), partial(_Session, destination))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients die in the middle here; that is what it is for."""


class _Session(socketserver.StreamRequestHandler):
    def __init__(self, destination: Smtp, *args: Any) -> None:
        self._destination = destination
        self._recipients: list[str] = []
        super().__init__(*args)

    def handle(self) -> None:
        self._say("220 mail.example")
        while line := self.rfile.readline():
            words = line.decode().strip()
            verb = words.split(" ")[0].upper()
            if verb == "QUIT":
                self._say("221 bye")
                return
            if not self._obey(verb, words):
                return

    def _obey(self, verb: str, words: str) -> bool:
        """Answers a command. `False`: the connection is cut."""
        if verb == "DATA":
            self._say("354 go on")
            return self._data()
        if verb == "MAIL":
            self._recipients = []
        elif verb == "RCPT":
            self._recipients.append(words.split("<")[-1].split(">")[0])
        known = verb in ("EHLO", "HELO", "MAIL", "RCPT", "RSET", "NOOP")
        self._say("250 ok" if known else "502 not here")
        return True

    def _data(self) -> bool:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        if not line:
            return False  # cut in the middle of the mail: that is no mail
        self._destination.book.arrived("DATA", to=self._recipients)
        try:
            self._say(self._destination.take(self._recipients, b"".join(lines)))
        except Cut:
            reset(self.connection)
            return False
        return True

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())
