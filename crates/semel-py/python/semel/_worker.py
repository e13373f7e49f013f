"""A worker: the code of workflows and effects, offered in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any

from ._app import Semel
from ._async_app import AsyncSemel
from ._contracts import Duration, milliseconds
from ._effect import Effect
from ._ledger import App
from ._workflow import Workflow

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Works on the runs of some workflows, and attends to effects that nobody waits for.

    `Worker(app, workflows=[triage]).run()` blocks until SIGTERM or Ctrl-C, then takes no more runs
    and lets go of those it holds, each when what it has under way is recorded. Async code awaits
    `serve()` instead.

    With `draft` its release is one: runs are started on it by its name, in the draft twin of the
    namespace, until somebody promotes it."""

    def __init__(
        self,
        app: App,
        workflows: Iterable[Workflow[..., Any]] = (),
        effects: Iterable[Effect[..., Any]] = (),
        *,
        release: str | None = None,
        draft: bool = False,
        lease: Duration | None = None,
        patience: Duration = "30s",
    ) -> None:
        self.app = app
        self.workflows = list(workflows)
        self.effects = list(effects)
        self.release = release
        self.draft = draft
        self._lease_ms = None if lease is None else milliseconds(lease)
        self._patience = milliseconds(patience) / 1000
        self._stopped = threading.Event()

    def start(self) -> Worker:
        """Begins to work, in the background."""
        app = self.app
        if not isinstance(app, Semel):
            raise TypeError("an AsyncSemel is worked by `await worker.serve()`")
        self._set_lease()
        for workflow in self.workflows:
            app.offer(workflow, self.release, self.draft)
        for effect in self.effects:
            app.attend_on(app.home(), effect, self.draft)
        return self

    def _set_lease(self) -> None:
        if self._lease_ms is not None:
            self.app.native.set_lease_ms(self._lease_ms)

    def stop(self) -> None:
        """Tells `run` or `serve` to end. May be called by any thread, and by a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Works until it is told to stop, then lets go of its runs and closes the ledger."""
        app = self.app
        if not isinstance(app, Semel):
            raise TypeError("an AsyncSemel is worked by `await worker.serve()`")
        self.start()
        before = self._hear_signals()
        try:
            # In slices: a signal handler runs between two of them.
            while not self._stopped.wait(0.2):
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            app.close(self._patience)

    def _hear_signals(self) -> dict[signal.Signals, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, self._on_signal) for number in _SIGNALS}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopped.set()

    async def serve(self) -> None:
        """Works in the running event loop until it is told to stop."""
        app = self.app
        if not isinstance(app, AsyncSemel):
            raise TypeError("a Semel is worked by `worker.run()`")
        await app.open()
        self._set_lease()
        for workflow in self.workflows:
            await app.offer(workflow, self.release, self.draft)
        host = app.host
        for effect in self.effects:
            app.attend_on(host, effect, self.draft)
        loop = asyncio.get_running_loop()
        heard: list[signal.Signals] = []
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._stopped.set)
                heard.append(number)
        try:
            while not self._stopped.is_set():
                await asyncio.sleep(0.1)
        finally:
            for number in heard:
                loop.remove_signal_handler(number)
            await app.close(self._patience)
