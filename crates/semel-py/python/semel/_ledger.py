"""What the ledgers of sync and of async code have in common."""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _current, _native
from ._children import Key, started
from ._codec import Codec, codec
from ._contracts import Duration, milliseconds, optional_ms
from ._effect import Bound, Effect
from ._errors import SemelError
from ._handles import actor_name
from ._host import Begin, Host, ask_blocking
from ._schedules import CatchUp, scheduled
from ._template import key_parts
from ._transaction import Transactional, TransactionWork
from ._work import SendWork
from ._workflow import Workflow

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE_MS = 5_000
"""How long closing waits for runs that have something under way."""

_log = logging.getLogger("semel")
_twins = threading.Lock()
"""Held while a twin is made: a second one would keep the ledger open."""


class Offered(NamedTuple):
    """What a process works on, and how it was told to."""

    workflow: Workflow[..., Any]
    release: str | None
    draft: bool


class App:
    """What `Semel` and `AsyncSemel` have in common."""

    def __init__(
        self, url: str, namespace: str | None, lease: Duration | None, release: str | None
    ) -> None:
        self.named_url = url
        """The address as it is written, also where another store is opened instead."""
        self.url = _current.directed(url)
        self.namespace = namespace or "default"
        self.release = release
        self._lease_ms = optional_ms(lease)
        self._native: _native.App | None = None
        self._offered: dict[str, Offered] = {}
        self._is_closing = False
        self._live: Self | None = None
        """Of a draft twin: the other half."""
        self._twin: Self | None = None

    @property
    def native(self) -> _native.App:
        """The opened ledger."""
        if self._native is None:
            raise SemelError("this Semel is not open", code="store_unavailable")
        return self._native

    def _set_lease(self) -> None:
        if self._lease_ms is not None:
            self.native.set_lease_ms(self._lease_ms)

    def patience_ms(self, patience: Duration | None) -> int:
        """How long to wait for attempts in progress; logs which ones."""
        open = self.native.open_attempts()
        longest = max((ms for _, ms in open), default=0)
        ms = max(PATIENCE_MS, longest) if patience is None else milliseconds(patience)
        if open:
            effects = ", ".join(sorted(name for name, _ in open))
            _log.warning("closing waits up to %s ms for attempts in progress: %s", ms, effects)
        return ms

    def hosting(self) -> Host:
        """Where its runs are worked on."""
        raise NotImplementedError

    def draft(self) -> Self:
        """The same ledger, in the draft twin of the namespace: its effects and runs are others."""
        if self._live is not None:
            return self
        with _twins:
            if self._twin is None:
                native = self.native.draft()
                twin = copy.copy(self)
                twin._native, twin.namespace = native, native.namespace
                twin._live, twin._offered = self, {}
                self._twin = twin
            return self._twin

    def within(self, namespace: str) -> App:
        """The half that works in this namespace: this one, or its twin."""
        if namespace == self.namespace:
            return self
        return self.draft() if self._live is None else self._live.within(namespace)

    def call_effect(self, effect: Effect[..., Any], bound: Bound) -> Any:
        """A direct call of an effect: through the ledger alone."""
        send = effect.send_work(self)
        wish = effect.wish(bound, self, send=send)

        def begin(inbox: _native.Inbox, token: int) -> _native.Asked:
            return self.native.call(inbox, token, wish)

        if effect.shape.is_async:
            return self._receipt_later(effect, begin, send)
        try:
            receipt = ask_blocking(begin)
        except SemelError as told:
            told.subject = send.subject
            raise told from told.__cause__ or send.error
        return effect.shape.result.load(receipt)

    async def _receipt_later(self, effect: Effect[..., Any], begin: Begin, send: SendWork) -> Any:
        try:
            receipt = await Host.running().ask(begin)
        except SemelError as told:
            told.subject = send.subject
            raise told from told.__cause__ or send.error
        return effect.shape.result.load(receipt)

    def call_transaction(self, effect: Transactional[..., Any], key: list[str], input: str) -> Any:
        """A direct call of a transaction, in this thread."""
        work = TransactionWork(effect)
        begin = self._transact(effect, key, input, work)
        try:
            return effect.shape.result.load(ask_blocking(begin))
        except SemelError:
            if work.error is not None:
                raise work.error from None
            raise

    def _transact(
        self, effect: Transactional[..., Any], key: list[str], input: str, work: TransactionWork
    ) -> Begin:
        return lambda inbox, token: self.native.transact(
            inbox, token, effect.declaration, key, input, work
        )

    def offer_on(
        self,
        host: Host,
        workflow: Workflow[..., Any],
        release: str | None = None,
        draft: bool = False,
    ) -> None:
        """Lets the thread of this host work on runs of the workflow."""
        known = self._offered.get(workflow.name)
        if known is not None and known.workflow is workflow:
            return
        if known is not None and known.workflow.function is not workflow.function:
            detail = f"there are two workflows named {workflow.name}; give one another name"
            raise SemelError(detail, code="name_invalid")
        host.offer(self, workflow)
        release = release or self.release
        name = release or workflow.release
        strict, policy = workflow.is_strict, workflow.policy
        self.native.offer(host.inbox, workflow.name, name, strict, draft, policy)
        self._offered[workflow.name] = Offered(workflow, release, draft)
        for named in workflow.named():
            if named.name not in self._offered:
                self.offer_on(host, named, release, draft)

    def offer_beside(self, parent: Workflow[..., Any], workflow: Workflow[..., Any]) -> None:
        """Works on children of a run, too, in the way in which it works on the run."""
        known = self._offered.get(parent.name)
        if known is None and self._live is not None:
            self._live.offer_beside(parent, workflow)
        elif known is not None and not self._is_closing:  # an offer would open the doors again
            self.offer_on(self.hosting(), workflow, known.release, known.draft)

    def attend_on(self, host: Host, effect: Effect[..., Any], draft: bool = False) -> None:
        """Lets the thread of this host attend to due effects that nobody waits for. A draft has its
        own, which are in the twin."""
        app = self.draft() if draft else self
        send, look = effect.send_work(app), effect.look_work(app)
        ask, only_by_call = effect.uncalled()
        app.native.attend(host.inbox, effect.declaration, send, look, ask, only_by_call)

    def _start(
        self,
        workflow: Workflow[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: Key | None,
        deadline: Duration | None,
        replay_window: Duration | None,
        release: str | None,
    ) -> tuple[Begin, Codec]:
        """What starts a run, and the codec of its result."""
        name, input, result = started(workflow, args, kwargs)
        parts = None if key is None else key_parts(key)
        window_ms, deadline_ms = optional_ms(replay_window), optional_ms(deadline)

        def begin(inbox: _native.Inbox, token: int) -> _native.Asked:
            return self.native.start(
                inbox, token, name, parts, input, window_ms, deadline_ms, release
            )

        return begin, result

    def _call_back(self, secret: str, payload: Any) -> Begin:
        stored = codec(Any).dump(payload)
        return lambda inbox, token: self.native.call_back(inbox, token, secret, stored)

    def _promote(
        self,
        workflow: Workflow[..., Any] | str,
        release: str | None,
        reason: str,
        actor: str | None,
    ) -> Begin:
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        who = actor or actor_name()
        return lambda inbox, token: self.native.promote(inbox, token, name, release, who, reason)

    def _releases(self) -> Begin:
        return lambda inbox, token: self.native.releases(inbox, token)

    def _approvals(self, most: int) -> Begin:
        return lambda inbox, token: self.native.approvals(inbox, token, most)

    def _schedule(
        self,
        name: str,
        workflow: Workflow[..., Any] | str,
        input: Any,
        pattern: tuple[str, str, CatchUp],
        replay_window: Duration | None,
    ) -> Begin:
        target, stored = scheduled(workflow, input)
        window_ms = optional_ms(replay_window)
        return lambda inbox, token: self.native.schedule(
            inbox, token, name, target, stored, *pattern, window_ms
        )

    def _steer_schedule(
        self, name: str, verb: str, reason: str = "", actor: str | None = None
    ) -> Begin:
        who = actor or actor_name()
        return lambda inbox, token: self.native.steer_schedule(
            inbox, token, name, verb, who, reason
        )

    def _schedules(self) -> Begin:
        return lambda inbox, token: self.native.schedules(inbox, token)

    def _find(self, action: str | Effect[..., Any], key: Key) -> Begin:
        name = action.action if isinstance(action, Effect) else action
        return lambda inbox, token: self.native.find(inbox, token, name, key_parts(key))

    def _proof(self, action: str | Effect[..., Any], key: Key) -> Begin:
        name = action.action if isinstance(action, Effect) else action
        return lambda inbox, token: self.native.proof(inbox, token, name, key_parts(key))

    def _resolve(
        self,
        action: str | Effect[..., Any],
        key: Key,
        decision: str,
        receipt: Any,
        reason: str,
        actor: str | None,
    ) -> Begin:
        result = action.shape.result if isinstance(action, Effect) else codec(Any)
        name = action.action if isinstance(action, Effect) else action
        stored = result.dump(receipt) if decision == "done" else None
        parts, who = key_parts(key), actor or actor_name()
        return lambda inbox, token: self.native.resolve(
            inbox, token, name, parts, decision, stored, who, reason
        )

    @contextmanager
    def as_current(self) -> Generator[Self, None, None]:
        """Makes this the ledger of direct calls inside the block, where several are open."""
        _current.push(self)
        try:
            yield self
        finally:
            _current.pop()

    def _closed(self) -> None:
        _current.closed(self)
        native, self._native = self._native, None
        # Opened again it has a ledger that none of them was offered to.
        self._offered.clear()
        self._is_closing = False
        twin, self._twin = self._twin, None
        if twin is not None:
            twin._closed()
        if native is not None:
            native.close()


def result_of(workflow: Workflow[..., Any] | None) -> Codec:
    """The codec of what a run comes to."""
    return codec(Any) if workflow is None else workflow.shape.result


def parsed(text: str | None) -> dict[str, Any] | None:
    """A view of the engine, read."""
    return None if text is None else dict(json.loads(text))
