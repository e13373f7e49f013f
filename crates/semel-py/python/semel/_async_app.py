"""A ledger, opened, for async code."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _current, _native
from ._children import Key
from ._contracts import Duration
from ._effect import Effect
from ._errors import SemelError
from ._handles import AsyncRunHandle
from ._host import Begin, Host
from ._ledger import App, parsed, result_of
from ._people import AsyncQuestion
from ._proof import Proof, read_proof
from ._releases import Release, read_releases
from ._schedules import CatchUp, Schedule, read_schedule
from ._workflow import Workflow

if TYPE_CHECKING:
    from types import TracebackType

    from ._worker import Worker

T = TypeVar("T")


class AsyncSemel(App):
    """A ledger for async code. Runs are worked on in the event loop that opened it.

    `async with AsyncSemel("sqlite:semel.db") as app:`, or `await AsyncSemel(...)`; close it by
    `await app.close()`. The addresses are those of `Semel`."""

    def __init__(
        self,
        url: str,
        namespace: str | None = None,
        lease: Duration | None = None,
        release: str | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(url, namespace, lease, release)
        self._token, self._within = token, namespace
        self._host: Host | None = None
        self._end: AsyncGenerator[None, None] | None = None
        self._opening = asyncio.Lock()

    @staticmethod
    async def on(native: _native.App) -> AsyncSemel:
        """On a ledger that was opened elsewhere, for tools."""
        app = AsyncSemel("", native.namespace)
        app._host, app._native = Host(asyncio.get_running_loop()), native
        _current.opened(app)
        return app

    async def open(self) -> AsyncSemel:
        """Opens the ledger."""
        if self._native is not None:
            return self
        async with self._opening:
            if self._native is None:
                self._native = await Host.running().ask(
                    lambda inbox, place: _native.App.open(
                        inbox, place, self.url, self._within, self._token
                    )
                )
                self.namespace = self.native.namespace
                # Of its own: another Semel on this event loop may offer workflows of these names.
                self._host = Host(asyncio.get_running_loop())
                self._set_lease()
                _current.opened(self)
                self._end = _at_the_end(weakref.ref(self))
                await self._end.__anext__()
        return self

    @property
    def host(self) -> Host:
        """Where its runs are worked on."""
        if self._live is not None:
            return self._live.host
        if self._host is None:
            raise SemelError("this Semel is not open", code="store_unavailable")
        return self._host

    def __await__(self) -> Generator[Any, None, AsyncSemel]:
        return self.open().__await__()

    async def _ask(self, begin: Begin) -> Any:
        await self.open()
        return await Host.running().ask(begin)

    def hosting(self) -> Host:
        return self.host

    async def offer(
        self, workflow: Workflow[..., Any], release: str | None = None, draft: bool = False
    ) -> None:
        """Works on runs of this workflow, whoever starts them."""
        await self.open()
        self.offer_on(self.host, workflow, release, draft)

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
    async def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        release: str | None = None,
        **kwargs: Any,
    ) -> AsyncRunHandle[T]: ...
    @overload
    async def start(
        self,
        workflow: str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        release: str | None = None,
    ) -> AsyncRunHandle[Any]: ...
    async def start(
        self,
        workflow: Workflow[..., Any] | str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        replay_window: Duration | None = None,
        release: str | None = None,
        **kwargs: Any,
    ) -> AsyncRunHandle[Any]:
        """Starts a run, or attaches to the one that this key started before."""
        if isinstance(workflow, Workflow):
            await self.offer(workflow)
        begin, result = self._start(workflow, args, kwargs, key, deadline, replay_window, release)
        return AsyncRunHandle(await self._ask(begin), result)

    async def run(self, id: str, workflow: Workflow[..., Any] | None = None) -> AsyncRunHandle[Any]:
        """A run by its id."""
        await self.open()
        return AsyncRunHandle(self.native.run(id), result_of(workflow))

    async def call_back(self, token: str, payload: Any = None) -> bool:
        """Answers a callback by its token; False says that the same answer had come before."""
        return bool(await self._ask(self._call_back(token, payload)) == "false")

    async def promote(
        self,
        workflow: Workflow[..., Any] | str,
        release: str,
        *,
        reason: str,
        actor: str | None = None,
    ) -> None:
        """Makes a release live: new runs start on it. Those under way stay where they are."""
        await self._ask(self._promote(workflow, release, reason, actor))

    async def roll_back(
        self, workflow: Workflow[..., Any] | str, *, reason: str, actor: str | None = None
    ) -> str:
        """Makes the release live again that was so before, and returns its name."""
        return str(await self._ask(self._promote(workflow, None, reason, actor)))

    async def releases(self) -> list[Release]:
        """All releases of the workflows of this namespace."""
        return read_releases(await self._ask(self._releases()))

    async def approvals(self, most: int = 100) -> list[AsyncQuestion]:
        """What waits for a person's decision, newest first."""
        found = json.loads(await self._ask(self._approvals(most)))
        return [AsyncQuestion(self.native, view, input) for view, input in found]

    async def schedule(
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
        """Starts a run of the workflow at each tick, once for ever; as `Semel.schedule`."""
        begin = self._schedule(name, workflow, input, (cron, zone, catch_up), replay_window)
        if isinstance(workflow, Workflow):
            await self.offer(workflow)
        return read_schedule(json.loads(await self._ask(begin)))

    async def schedules(self) -> list[Schedule]:
        """All schedules of this namespace, by name."""
        return [read_schedule(view) for view in json.loads(await self._ask(self._schedules()))]

    async def pause_schedule(self, name: str, *, reason: str, actor: str | None = None) -> None:
        """Stops a schedule: ticks are passed over until it is resumed."""
        await self._ask(self._steer_schedule(name, "pause", reason, actor))

    async def resume_schedule(self, name: str) -> None:
        """Lets a schedule go on, with the first tick from now on."""
        await self._ask(self._steer_schedule(name, "resume"))

    async def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Its runs stay."""
        await self._ask(self._steer_schedule(name, "remove"))

    async def find(self, action: str | Effect[..., Any], key: Key) -> dict[str, Any] | None:
        """What the ledger knows of an effect; None when it was never begun."""
        return parsed(await self._ask(self._find(action, key)))

    async def proof(self, action: str | Effect[..., Any], key: Key) -> Proof | None:
        """Proves what became of an effect, on what evidence; None when it was never begun."""
        text = await self._ask(self._proof(action, key))
        return None if text is None else read_proof(text)

    async def resolve(
        self,
        action: str | Effect[..., Any],
        key: Key,
        decision: str,
        *,
        reason: str,
        receipt: Any = None,
        actor: str | None = None,
    ) -> None:
        """Settles a doubt by a person's word: "done", "retry" or "failed"."""
        await self._ask(self._resolve(action, key, decision, receipt, reason, actor))

    async def close(self, patience: Duration | None = None) -> None:
        """Releases its runs once their work in progress is recorded, and closes the ledger.

        Attempts in progress are waited for up to their deadline, also those whose
        caller has left; with a `patience` no longer than that."""
        if self._native is None or self._live is not None:
            return  # a draft twin ends with its other half
        self._is_closing = True
        native, ms = self._native, self.patience_ms(patience)
        await Host.running().ask(lambda inbox, token: native.drain(inbox, token, ms))
        self.abandon()
        end, self._end = self._end, None
        if end is not None:
            await end.aclose()

    def abandon(self) -> None:
        """Closes the ledger at once: what is under way is left to whoever opens it next."""
        self._closed()
        host, self._host = self._host, None
        if host is not None:
            host.close()

    async def __aenter__(self) -> AsyncSemel:
        await self.open()
        _current.push(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.pop()
        await self.close()


async def _at_the_end(this: weakref.ref[AsyncSemel]) -> AsyncGenerator[None, None]:
    """Ends with its event loop, as that closes all generators that are open. A Semel that nobody
    closed would keep its runs from everybody else, with no one to work on them."""
    try:
        yield
    finally:
        app = this()
        if app is not None:
            app.abandon()
