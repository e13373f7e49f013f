"""A ledger, opened, for sync code. Its async twin is in `_async_app`."""

from __future__ import annotations

import atexit
import copy
import json
import os
import threading
import weakref
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from . import _current, _native
from ._children import started
from ._codec import Codec, codec
from ._contracts import Duration, milliseconds, optional_ms
from ._effect import Bound, Effect
from ._errors import SemelError
from ._handles import RunHandle, actor_name
from ._host import Begin, Home, Host, ask_blocking
from ._releases import Release, read_releases
from ._template import key_parts
from ._transaction import Transactional, TransactionWork
from ._workflow import Workflow

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from ._worker import Worker

T = TypeVar("T")
Key = str | list[str] | tuple[str, ...]

PATIENCE_MS = 5_000
"""How long closing waits for runs that have something under way."""


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
        self, url: str, namespace: str, lease: Duration | None, release: str | None
    ) -> None:
        self.url = url
        self.namespace = namespace
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
        wish = effect.wish(bound, self)

        def begin(inbox: _native.Inbox, token: int) -> _native.Asked:
            return self.native.call(inbox, token, wish)

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
        app.native.attend(host.inbox, effect.declaration, send, look)

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
        self._is_closing = False
        twin, self._twin = self._twin, None
        if twin is not None:
            twin._closed()
        if native is not None:
            native.close()


class Semel(App):
    """A ledger for sync code. It also works the runs it starts, in a thread of its own.

    `Semel("sqlite:semel.db")`, `Semel("postgres://…")`. The open one of the process is used by
    effects that are called directly; where several are open, `with app:` chooses. `lease` is how
    long a process that works on runs may give no sign of life before another one goes on (30 s).
    `release` names this version of the code of its workflows (a digest of the source)."""

    def __init__(
        self,
        url: str,
        namespace: str = "default",
        lease: Duration | None = None,
        release: str | None = None,
    ) -> None:
        super().__init__(url, namespace, lease, release)
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
        if self._live is not None:
            return self._live.home()
        with self._lock:
            if self._home is None:
                self._home = Home()
            return self._home.host

    def hosting(self) -> Host:
        return self.home()

    def offer(
        self, workflow: Workflow[..., Any], release: str | None = None, draft: bool = False
    ) -> None:
        """Works on runs of this workflow, whoever starts them."""
        self.offer_on(self.home(), workflow, release, draft)

    def worker(
        self,
        workflows: Iterable[Workflow[..., Any]] = (),
        effects: Iterable[Effect[..., Any]] = (),
        **options: Any,
    ) -> Worker:
        """A `Worker` on this ledger, with the options of that: `draft=True`, `release="r2"`…"""
        from ._worker import Worker

        return Worker(self, workflows, effects, **options)

    @overload
    def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        release: str | None = None,
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
        release: str | None = None,
    ) -> RunHandle[Any]: ...
    def start(
        self,
        workflow: Workflow[..., Any] | str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        release: str | None = None,
        **kwargs: Any,
    ) -> RunHandle[Any]:
        """Starts a run, or attaches to the one that this key started before.

        By its name a workflow is started for other workers; given itself, this process works on it,
        too. `release` is the one to start on, instead of the live one: so a draft is started, and
        it runs in the draft twin of the namespace."""
        begin, result = self._start(workflow, args, kwargs, key, deadline, replay_window, release)
        if isinstance(workflow, Workflow):
            self.offer(workflow)
        return RunHandle(ask_blocking(begin), result)

    def run(self, id: str, workflow: Workflow[..., Any] | None = None) -> RunHandle[Any]:
        """A run by its id."""
        return RunHandle(self.native.run(id), result_of(workflow))

    def call_back(self, token: str, payload: Any = None) -> bool:
        """Answers a callback by its token. The first answer stands: False says that the same one
        had come before, another one is refused."""
        return bool(ask_blocking(self._call_back(token, payload)) == "false")

    def promote(
        self,
        workflow: Workflow[..., Any] | str,
        release: str,
        *,
        reason: str,
        actor: str | None = None,
    ) -> None:
        """Makes a release live: new runs start on it. Those under way stay where they are."""
        ask_blocking(self._promote(workflow, release, reason, actor))

    def roll_back(
        self, workflow: Workflow[..., Any] | str, *, reason: str, actor: str | None = None
    ) -> str:
        """Makes the release live again that was so before, and returns its name."""
        return str(ask_blocking(self._promote(workflow, None, reason, actor)))

    def releases(self) -> list[Release]:
        """All releases of the workflows of this namespace."""
        return read_releases(ask_blocking(self._releases()))

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
        if self._native is None or self._live is not None:
            return  # a draft twin ends with its other half
        if os.getpid() != self._pid:
            # A forked child has a copy, and nothing of it to close: the parent has the original.
            _current.closed(self)
            self._native = None
            return
        self._is_closing = True
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
