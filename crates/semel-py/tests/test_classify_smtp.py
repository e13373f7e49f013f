"""What errors of smtplib prove; each is let happen, by a server that follows a script."""

from __future__ import annotations

import smtplib
import socket
import threading
from typing import ClassVar

import pytest
from classify_kit import happened, verdict
from stand_ins import refusing_url


class MailServer:
    """Answers each command by its first word; `cut` closes the connection instead."""

    ANSWERS: ClassVar = {
        "CONNECT": "220 ready",
        "EHLO": "250-here\r\n250 AUTH PLAIN",
        "HELO": "250 here",
        "AUTH": "235 welcome",
        "MAIL": "250 ok",
        "RCPT": "250 ok",
        "DATA": "354 go on",
        ".": "250 taken",
        "RSET": "250 ok",
        "QUIT": "221 bye",
    }

    def __init__(self, **answers: str) -> None:
        dot = answers.pop("DOT", self.ANSWERS["."])
        self.answers = {**self.ANSWERS, **answers, ".": dot}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> MailServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb", buffering=0) as lines:
            word = "CONNECT"
            in_mail = False
            recipients = 0
            while word:
                answer = self.answers.get(word, "500 what")
                if word == "RCPT":
                    # One answer for each recipient, and the last one stays.
                    answers = answer.split(" | ")
                    answer = answers[min(recipients, len(answers) - 1)]
                    recipients += 1
                if answer == "cut":
                    return
                lines.write(answer.encode() + b"\r\n")
                in_mail = word == "DATA" and answer.startswith("354")
                line = lines.readline()
                while in_mail and line not in (b".\r\n", b""):
                    line = lines.readline()
                word = line.decode().strip().split(" ")[0].upper()


def send(port: int, recipients: int = 1, login: bool = False) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=5) as mail:
        if login:
            mail.login("me", "secret")
        to = [f"you{number}@example.org" for number in range(recipients)]
        mail.sendmail("me@example.org", to, "Subject: hello\r\n\r\nhello\r\n")


# What the server answers and where, the error of smtplib, what it proves.
PHASES: list[tuple[dict[str, str], str, str]] = [
    ({"CONNECT": "421 busy"}, "SMTPConnectError", "not applied"),
    ({"CONNECT": "554 no"}, "SMTPConnectError", "refused"),
    ({"EHLO": "500 what", "HELO": "450 later"}, "SMTPHeloError", "not applied"),
    ({"EHLO": "500 what", "HELO": "550 no"}, "SMTPHeloError", "refused"),
    ({"AUTH": "454 later"}, "SMTPAuthenticationError", "not applied"),
    ({"AUTH": "535 no"}, "SMTPAuthenticationError", "not applied"),
    ({"EHLO": "250 here"}, "SMTPNotSupportedError", "not applied"),
    ({"MAIL": "451 later"}, "SMTPSenderRefused", "not applied"),
    ({"MAIL": "550 no"}, "SMTPSenderRefused", "refused"),
    ({"MAIL": "gibberish"}, "SMTPSenderRefused", "not applied"),
    ({"RCPT": "450 later"}, "SMTPRecipientsRefused", "not applied"),
    ({"RCPT": "550 no"}, "SMTPRecipientsRefused", "refused"),
    ({"RCPT": "550 no | 450 later"}, "SMTPRecipientsRefused", "not applied"),
    ({"DATA": "451 later"}, "SMTPDataError", "not applied"),
    ({"DATA": "554 no"}, "SMTPDataError", "refused"),
    ({"DOT": "451 later"}, "SMTPDataError", "not applied"),
    ({"DOT": "554 no"}, "SMTPDataError", "refused"),
    ({"DOT": "421 goodbye"}, "SMTPDataError", "unknown"),
    ({"DOT": "gibberish"}, "SMTPDataError", "unknown"),
    ({"DOT": "cut"}, "SMTPServerDisconnected", "unknown"),
    ({"MAIL": "cut"}, "SMTPServerDisconnected", "unknown"),
    ({"CONNECT": "cut"}, "SMTPServerDisconnected", "unknown"),
]


@pytest.mark.parametrize(("answers", "kind", "want"), PHASES)
def test_what_the_phase_proves(answers: dict[str, str], kind: str, want: str) -> None:
    login = kind in ("SMTPAuthenticationError", "SMTPNotSupportedError")
    with MailServer(**answers) as server:
        error = happened(lambda: send(server.port, recipients=2, login=login))
    assert (type(error).__name__, verdict(error)) == (kind, want)


def test_a_mail_server_that_is_not_there_was_not_applied() -> None:
    port = int(refusing_url().rpartition(":")[2])
    assert verdict(happened(lambda: send(port))) == "not applied"
