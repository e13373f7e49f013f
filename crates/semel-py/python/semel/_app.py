"""A ledger, opened, for sync code. Its async twin is in `_async_app`."""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _current, _native
from ._children import Key
from ._contracts import Duration
from ._effect import Effect
from ._handles import RunHandle
from ._host import Home, Host, ask_blocking
from ._ledger import App, parsed, result_of
from ._people import Question
from ._proof import Proof, read_proof
from ._releases import Release, read_releases
from ._schedules import CatchUp, Schedule, read_schedule
from ._workflow import Workflow

if TYPE_CHECKING:
    from types import TracebackType

    from ._worker import Worker

T = TypeVar("T")


class Semel(App):
    """A ledger for sync code. It also works the runs it starts, in a thread of its own.

    `Semel("sqlite:semel.db")`, `Semel("postgres://…")`, or `Semel("http://…", token=…)` for the
    ledger of a server, whose token may also be in `SEMEL_TOKEN`. The namespace is `default`, or
    the token's own.

    Effects that are called directly use the open one of the process; where several are open,
    `with app.as_current():` chooses. `with Semel(...) as app:` closes it at the end of the block.

    `lease` is how long a process that works on runs may give no sign of life before another one
    goes on (30 s). `release` names this version of the code of its workflows (a digest of the
    source)."""

    def __init__(
        self,
        url: str,
        namespace: str | None = None,
        lease: Duration | None = None,
        release: str | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(url, namespace, lease, release)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._home: Home | None = None
        self._native = ask_blocking(
            lambda inbox, place: _native.App.open(inbox, place, self.url, namespace, token)
        )
        self.namespace = self.native.namespace
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
        *,
        release: str | None = None,
        draft: bool = False,
        lease: Duration | None = None,
        patience: Duration = "30s",
    ) -> Worker:
        """A `Worker` on this ledger."""
        from ._worker import Worker

        return Worker(
            self,
            workflows,
            effects,
            release=release,
            draft=draft,
            lease=lease,
            patience=patience,
        )

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

    def approvals(self, most: int = 100) -> list[Question]:
        """What waits for a person's decision, newest first: `question.approve()`, `.deny(…)` or
        `.return_(…)`."""
        found = json.loads(ask_blocking(self._approvals(most)))
        return [Question(self.native, view, input) for view, input in found]

    def schedule(
        self,
        name: str,
        workflow: Workflow[..., Any] | str,
        *,
        cron: str,
        zone: str = "UTC",
        catch_up: CatchUp = "skip",
        input: Any = None,
        replay_window: Duration | None = None,
    ) -> Schedule:
        """Starts a run of the workflow at each tick, once for ever: `cron="0 3 * * *"` in a time
        zone such as `Europe/Rome`.

        `catch_up` says what becomes of ticks that nobody was there for: none of them runs, the
        latest (`"once"`), or each (`"all"`). `input` is what each run gets. Said again it changes
        nothing; said otherwise it holds from now on. Given itself, the workflow is worked on by
        this process, too."""
        begin = self._schedule(name, workflow, input, (cron, zone, catch_up), replay_window)
        if isinstance(workflow, Workflow):
            self.offer(workflow)
        return read_schedule(json.loads(ask_blocking(begin)))

    def schedules(self) -> list[Schedule]:
        """All schedules of this namespace, by name."""
        return [read_schedule(view) for view in json.loads(ask_blocking(self._schedules()))]

    def pause_schedule(self, name: str, *, reason: str, actor: str | None = None) -> None:
        """Stops a schedule: ticks are passed over until it is resumed."""
        ask_blocking(self._steer_schedule(name, "pause", reason, actor))

    def resume_schedule(self, name: str) -> None:
        """Lets a schedule go on, with the first tick from now on."""
        ask_blocking(self._steer_schedule(name, "resume"))

    def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Its runs stay."""
        ask_blocking(self._steer_schedule(name, "remove"))

    def find(self, action: str | Effect[..., Any], key: Key) -> dict[str, Any] | None:
        """What the ledger knows of an effect; None when it was never begun."""
        return parsed(ask_blocking(self._find(action, key)))

    def proof(self, action: str | Effect[..., Any], key: Key) -> Proof | None:
        """Proves what became of an effect, on what evidence, and what is not proven; None when it
        was never begun. Written as JSON, `semel proof verify` checks it without the store."""
        text = ask_blocking(self._proof(action, key))
        return None if text is None else read_proof(text)

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

    def close(self, patience: Duration | None = None) -> None:
        """Releases its runs once their work in progress is recorded, and closes the ledger.

        Attempts in progress are waited for up to their deadline, also those whose
        caller has left; with a `patience` no longer than that."""
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
            native, ms = self._native, self.patience_ms(patience)
            ask_blocking(lambda inbox, token: native.drain(inbox, token, ms))
            self._home.stop()
        self._closed()

    def __enter__(self) -> Semel:
        """Makes this the ledger of direct calls inside the block. Leaving it closes the ledger."""
        _current.push(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.pop()
        self.close()


_opened: weakref.WeakSet[Semel] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for app in list(_opened):
        app.close(patience=1)
