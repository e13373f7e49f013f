"""A ledger, opened, for sync code. Its async twin is in `_async_app`."""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _current, _native
from ._codec import Codec, codec
from ._contracts import Duration, milliseconds, optional_ms
from ._declare import Effect, Workflow
from ._errors import SemelError
from ._handles import RunHandle, actor_name
from ._host import Begin, Home, Host, ask_blocking
from ._template import key_parts
from ._transaction import Transactional, TransactionWork

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
Key = str | list[str] | tuple[str, ...]

PATIENCE_MS = 5_000
"""How long closing waits for runs that have something under way."""


class App:
    """What `Semel` and `AsyncSemel` have in common."""

    def __init__(self, url: str, namespace: str, lease: Duration | None) -> None:
        self.url = url
        self.namespace = namespace
        self._lease_ms = optional_ms(lease)
        self._native: _native.App | None = None
        self._offered: dict[str, Workflow[..., Any]] = {}

    @property
    def native(self) -> _native.App:
        """The opened ledger."""
        if self._native is None:
            raise SemelError("this Semel is not open", code="store_unavailable")
        return self._native

    def _set_lease(self) -> None:
        if self._lease_ms is not None:
            self.native.set_lease_ms(self._lease_ms)

    def call_effect(
        self, effect: Effect[..., Any], key: list[str], downstream_key: str | None, input: str
    ) -> Any:
        """A direct call of an effect: through the ledger alone."""
        send, look = effect.send_work(self), effect.look_work(self)

        def begin(inbox: _native.Inbox, token: int) -> _native.Asked:
            return self.native.call(
                inbox, token, effect.declaration, key, downstream_key, input, send, look
            )

        if effect.shape.is_async:
            return self._receipt_later(effect, begin)
        return effect.shape.result.load(ask_blocking(begin))

    async def _receipt_later(self, effect: Effect[..., Any], begin: Begin) -> Any:
        return effect.shape.result.load(await Host.running().ask(begin))

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
        self, host: Host, workflow: Workflow[..., Any], release: str | None = None
    ) -> None:
        """Lets the thread of this host work on runs of the workflow."""
        known = self._offered.get(workflow.name)
        if known is workflow:
            return
        if known is not None and known.function is not workflow.function:
            detail = f"there are two workflows named {workflow.name}; give one another name"
            raise SemelError(detail, code="name_invalid")
        host.offer(self, workflow)
        self.native.offer(host.inbox, workflow.name, release or workflow.release)
        self._offered[workflow.name] = workflow

    def attend_on(self, host: Host, effect: Effect[..., Any]) -> None:
        """Lets the thread of this host attend to due effects that nobody waits for."""
        send, look = effect.send_work(self), effect.look_work(self)
        self.native.attend(host.inbox, effect.declaration, send, look)

    def _start(
        self,
        workflow: Workflow[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: Key | None,
        deadline: Duration | None,
        replay_window: Duration | None,
    ) -> tuple[Begin, Codec]:
        """What starts a run, and the codec of its result."""
        if isinstance(workflow, Workflow):
            name, result = workflow.name, workflow.shape.result
            input = workflow.dump_input(args, kwargs)
        else:
            if kwargs or len(args) > 1:
                raise TypeError("a workflow by its name takes one input")
            name, result = workflow, codec(Any)
            input = codec(Any).dump(args[0] if args else None)
        parts = None if key is None else key_parts(key)
        window_ms, deadline_ms = optional_ms(replay_window), optional_ms(deadline)

        def begin(inbox: _native.Inbox, token: int) -> _native.Asked:
            return self.native.start(inbox, token, name, parts, input, window_ms, deadline_ms)

        return begin, result

    def _find(self, action: str | Effect[..., Any], key: Key) -> Begin:
        name = action.action if isinstance(action, Effect) else action
        return lambda inbox, token: self.native.find(inbox, token, name, key_parts(key))

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

    def _closed(self) -> None:
        _current.closed(self)
        native, self._native = self._native, None
        # Opened again it has a ledger that none of them was offered to.
        self._offered.clear()
        if native is not None:
            native.close()


class Semel(App):
    """A ledger for sync code. It also works the runs it starts, in a thread of its own.

    `Semel("sqlite:semel.db")`, `Semel("postgres://…")`. The open one of the process is used by
    effects that are called directly; where several are open, `with app:` chooses. `lease` is how
    long a process that works on runs may give no sign of life before another one goes on (30 s)."""

    def __init__(self, url: str, namespace: str = "default", lease: Duration | None = None) -> None:
        super().__init__(url, namespace, lease)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._home: Home | None = None
        self._native = ask_blocking(
            lambda inbox, token: _native.App.open(inbox, token, url, namespace)
        )
        self._set_lease()
        _current.opened(self)
        _opened.add(self)

    def home(self) -> Host:
        """Where its runs are worked on."""
        with self._lock:
            if self._home is None:
                self._home = Home()
            return self._home.host

    def offer(self, workflow: Workflow[..., Any], release: str | None = None) -> None:
        """Works on runs of this workflow, whoever starts them."""
        self.offer_on(self.home(), workflow, release)

    @overload
    def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        **kwargs: Any,
    ) -> RunHandle[T]: ...
    @overload
    def start(
        self,
        workflow: str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
    ) -> RunHandle[Any]: ...
    def start(
        self,
        workflow: Workflow[..., Any] | str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        **kwargs: Any,
    ) -> RunHandle[Any]:
        """Starts a run, or attaches to the one that this key started before.

        By its name a workflow is started for other workers; given itself, this process works on it,
        too."""
        begin, result = self._start(workflow, args, kwargs, key, deadline, replay_window)
        if isinstance(workflow, Workflow):
            self.offer(workflow)
        return RunHandle(ask_blocking(begin), result)

    def run(self, id: str, workflow: Workflow[..., Any] | None = None) -> RunHandle[Any]:
        """A run by its id."""
        return RunHandle(self.native.run(id), result_of(workflow))

    def find(self, action: str | Effect[..., Any], key: Key) -> dict[str, Any] | None:
        """What the ledger knows of an effect; None when it was never begun."""
        return parsed(ask_blocking(self._find(action, key)))

    def resolve(
        self,
        action: str | Effect[..., Any],
        key: Key,
        decision: str,
        *,
        reason: str,
        receipt: Any = None,
        actor: str | None = None,
    ) -> None:
        """Settles a doubt by a person's word: it happened ("done"), it shall be sent again
        ("retry"), or it did not happen and shall not ("failed")."""
        ask_blocking(self._resolve(action, key, decision, receipt, reason, actor))

    def close(self, patience: Duration = PATIENCE_MS / 1000) -> None:
        """Lets its runs go, each when what it has under way is recorded, and closes the ledger."""
        _opened.discard(self)
        if self._native is None:
            return
        if os.getpid() != self._pid:
            # A forked child has a copy, and nothing of it to close: the parent has the original.
            _current.closed(self)
            self._native = None
            return
        if self._home is not None:
            native, ms = self._native, milliseconds(patience)
            ask_blocking(lambda inbox, token: native.drain(inbox, token, ms))
            self._home.stop()
        self._closed()

    def __enter__(self) -> Semel:
        _current.push(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.pop()


def result_of(workflow: Workflow[..., Any] | None) -> Codec:
    """The codec of what a run comes to."""
    return codec(Any) if workflow is None else workflow.shape.result


def parsed(text: str | None) -> dict[str, Any] | None:
    """A view of the engine, read."""
    return None if text is None else dict(json.loads(text))


_opened: weakref.WeakSet[Semel] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for app in list(_opened):
        app.close(patience=1)
