"""Asking a person in a workflow, with nothing to send."""

from __future__ import annotations

import contextvars
from collections.abc import Coroutine
from typing import Any

from ._approval import Approval
from ._children import Key
from ._codec import codec
from ._command import Commands, command
from ._contracts import Duration, optional_ms
from ._errors import NotApplied, text
from ._native import Again, Ask, Declaration, Inbox, Wish
from ._template import key_parts


class _Nothing:
    """What a question sends."""

    is_async = True

    def context(self, argument: Any) -> contextvars.Context:
        return contextvars.copy_context()

    async def begin(self, argument: Any) -> Any:
        raise NotApplied("a question has nothing to send")

    def reply(self, inbox: Inbox, job: int, value: Any) -> None:
        """There is nothing to say."""

    def fail(self, inbox: Inbox, job: int, error: BaseException) -> None:
        inbox.fail(job, "not_applied", text(error), None)


class Asks(Commands):
    """The part of a context that asks people."""

    def approve(
        self,
        name: str,
        payload: Any = None,
        *,
        key: Key | None = None,
        expires: Duration | None = None,
        four_eyes: bool = False,
        requested_by: str | None = None,
        note: str | None = None,
        step_id: str | None = None,
    ) -> Coroutine[Any, Any, Approval]:
        """Asks a person for their word, with nothing to send: who said yes, when and what beside
        it comes back. A no raises `ApprovalDenied`, `ApprovalReturned` or `ApprovalExpired`.

        Each run asks its own question, or with a `key` all that have it ask the same one. `expires`
        is when silence is a no; with `four_eyes` whoever is named by `requested_by` may not
        decide."""
        id = self._port.command_id(name, step_id)
        parts = [self._port.run_id, id] if key is None else key_parts(key)
        ask = Ask(optional_ms(expires), requested_by, four_eyes, note, True)
        declaration = Declaration(name, again=Again(), can_abort=True)
        input = codec(Any).dump(payload)
        return self._approve(id, Wish(declaration, parts, None, input, _Nothing(), None, ask))

    @command
    async def _approve(self, id: str, wish: Wish) -> Approval:
        waiter, answer = self._body.wait(id)
        self._port.effect(waiter, id, wish, None, None)
        approved: Approval = self._typed(id, codec(Approval), await answer)
        return approved
