"""Errors of smtplib: a mail is handed over with the answer to its last line, and not before."""

from __future__ import annotations

from typing import Any

from semel.classify._proof import Proof, names, not_applied, refused

_BEFORE_DATA = {"SMTPConnectError", "SMTPHeloError", "SMTPSenderRefused"}


def proof(exc: Any, single_try: bool) -> Proof | None:
    """What an error of smtplib proves. It never tries twice, whatever `single_try` says."""
    kinds = names(exc)
    # Credentials can be mended, as with a 401.
    if kinds & {"SMTPNotSupportedError", "SMTPAuthenticationError"}:
        return not_applied(exc)
    if kinds & _BEFORE_DATA:
        return _before_data(exc, [exc.smtp_code])
    if "SMTPRecipientsRefused" in kinds:
        # Raised only if not one recipient was accepted.
        return _before_data(exc, [code for code, _ in exc.recipients.values()])
    if "SMTPDataError" in kinds:
        return _data(exc, exc.smtp_code)
    return None


def _before_data(exc: BaseException, codes: list[int]) -> Proof:
    # Whatever the code: the mail itself was not sent yet. Final if the server says so throughout.
    final = bool(codes) and all(500 <= code <= 599 for code in codes)
    return refused(exc) if final else not_applied(exc)


def _data(exc: BaseException, code: int) -> Proof | None:
    # The server has the mail and says that it does not take it on. Any other code leaves open what
    # it did: -1 for an answer nobody can read, 421 for a server that goes away with the mail.
    if code == 421:
        return None
    if 500 <= code <= 599:
        return refused(exc)
    return not_applied(exc) if 400 <= code <= 499 else None
