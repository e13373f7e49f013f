"""Where Python works for the engine: one host for each event loop, one for each blocking call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _current
from ._body import Body
from ._errors import SemelError, TimedOut, from_native, text
from ._native import Asked, Inbox
from ._threads import THREADS_MAX, Threads
from ._work import TooLate, Work

if TYPE_CHECKING:
    from ._ledger import App
    from ._workflow import Workflow

Begin = Callable[[Inbox, int], Asked]
"""Asks the engine for something: it answers into the inbox, under the token."""

_log = logging.getLogger("semel")
_tokens = itertools.count(1)
_hosts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Host] = weakref.WeakKeyDictionary()


class Host:
    """Reads the inbox of one event loop, and does there what the engine asks for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.inbox = Inbox(THREADS_MAX)
        self._loop = weakref.ref(loop)
        self._told: dict[int, asyncio.Future[Any]] = {}
        self._bodies: dict[int, Body] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._workflows: dict[str, tuple[App, Workflow[..., Any]]] = {}
        self._threads = Threads()
        self._is_flushing = False
        # Weak: a loop must not keep alive what keeps its own inbox open.
        this: weakref.ref[Host] = weakref.ref(self)
        loop.add_reader(self.inbox.fileno(), _read, this)

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Host:
        """The host of an event loop."""
        host = _hosts.get(loop)
        if host is None:
            host = _hosts[loop] = Host(loop)
        return host

    @staticmethod
    def running() -> Host:
        """The host of the running event loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            detail = (
                "async effects, runs and AsyncSemel need a running asyncio event loop; elsewhere, "
                "as under trio, use Semel and sync effects in a thread"
            )
            raise RuntimeError(detail) from None
        return Host.of(loop)

    def offer(self, app: App, workflow: Workflow[..., Any]) -> None:
        """Runs of this workflow will be led here."""
        self._workflows[workflow.name] = (app, workflow)

    async def ask(self, begin: Begin) -> Any:
        """Asks the engine, and waits for the answer."""
        token = next(_tokens)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._told[token] = future
        asked = None
        try:
            asked = begin(self.inbox, token)
            return await future
        finally:
            self._told.pop(token, None)
            if asked is not None and future.cancelled():
                asked.cancel()

    def read(self) -> None:
        """Does everything that waits in the inbox."""
        interrupt: BaseException | None = None
        for kind, *parts in self.inbox.drain():
            try:
                _HANDLERS[kind](self, *parts)
            except Exception:
                _log.exception("a message of the engine could not be handled")
            except BaseException as error:
                # Such as KeyboardInterrupt. The rest is done first: nobody would say it again.
                interrupt = interrupt or error
        self.inbox.flush()
        if interrupt is not None:
            raise interrupt

    def _flush_soon(self) -> None:
        """Passes on what was said, once for everything that is ready to run now."""
        loop = self._loop()
        if not self._is_flushing and loop is not None:
            self._is_flushing = True
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        self.inbox.flush()

    def _on_told(self, token: int, value: Any, error: Any) -> None:
        future = self._told.pop(token, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(from_native(*error))

    def _on_begin(self, number: int, workflow: str, input: str, port: Any) -> None:
        offered = self._workflows.get(workflow)
        if offered is None:
            port.give_up("workflow_unknown", f"{workflow} is not offered on this event loop")
            return
        app, code = offered
        body = self._bodies[number] = Body(app.within(port.namespace), code, port)
        body.begin(input)

    def _on_advance(self, number: int, answers: Any) -> None:
        body = self._bodies.get(number)
        if body is not None:
            body.advance(answers)

    def _on_drop(self, number: int) -> None:
        body = self._bodies.pop(number, None)
        if body is not None:
            body.drop()

    def _on_work(self, job: int, work: Work, argument: Any) -> None:
        try:
            context = work.context(argument)
            if not work.is_async:
                self._in_thread(job, work, argument, context)
                return
            loop = asyncio.get_running_loop()
            self._tasks[job] = context.run(loop.create_task, self._do(job, work, argument))
        except Exception as error:
            # It was not begun: nothing happened.
            self.inbox.fail(job, "not_applied", text(error), None)

    async def _do(self, job: int, work: Work, argument: Any) -> None:
        try:
            value = await work.begin(argument)
        except (Exception, SystemExit) as error:
            # An exit ends the step, not the event loop that other runs live on.
            _fail(self.inbox, job, work, error)
        except BaseException as error:
            # Cancelled: by the engine, whom the answer does not reach, or with its event loop.
            _fail(self.inbox, job, work, error)
            raise
        else:
            _reply(self.inbox, job, work, value)
        finally:
            self._tasks.pop(job, None)
            self._flush_soon()

    def _in_thread(self, job: int, work: Work, argument: Any, context: Any) -> None:
        loop = self._loop()

        def run() -> None:
            try:
                value = do_here(self.inbox, job, work, argument)
            finally:
                argument.release()
            if inspect.isawaitable(value) and loop is not None:
                # A plain callable that gave something to await after all.
                later = self._later(job, work, argument, value)
                asyncio.run_coroutine_threadsafe(later, loop)

        self._threads.begin(functools.partial(context.run, run))

    async def _later(self, job: int, work: Work, argument: Any, value: Any) -> None:
        try:
            if inspect.iscoroutine(value) and not argument.is_in_time():
                value.close()
                raise RuntimeError("what it returned to await was not begun in time")
            _reply(self.inbox, job, work, await value)
        except BaseException as error:
            _fail(self.inbox, job, work, error)
        self.inbox.flush()

    def _on_transact(self, job: int, work: Any, transaction: Any) -> None:
        self._threads.begin(functools.partial(work.run, transaction))

    def _on_abort(self, job: int) -> None:
        task = self._tasks.get(job)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Nothing is done here any more."""
        self.inbox.close()
        self._threads.close()
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self.inbox.fileno())
            if _hosts.get(loop) is self:
                del _hosts[loop]


def _read(this: weakref.ref[Host]) -> None:
    host = this()
    if host is not None:
        host.read()


_HANDLERS: dict[str, Callable[..., None]] = {
    "told": Host._on_told,
    "begin": Host._on_begin,
    "advance": Host._on_advance,
    "drop": Host._on_drop,
    "step": Host._on_work,
    "send": Host._on_work,
    "look": Host._on_work,
    "transact": Host._on_transact,
    "abort": Host._on_abort,
}


def _reply(inbox: Inbox, job: int, work: Work, value: Any) -> None:
    """Says what a job came to."""
    try:
        work.reply(inbox, job, value)
    except Exception as error:
        _fail(inbox, job, work, error)


def _fail(inbox: Inbox, job: int, work: Work, error: BaseException) -> None:
    """Says why a job came to nothing. Whatever happens here, it is answered: else its run would
    wait for ever. After the call nothing proves that it did not happen."""
    if isinstance(error, TooLate):
        inbox.fail(job, "not_applied", "its time to begin was over", None)
        return
    try:
        work.fail(inbox, job, error)
    except Exception:
        _log.exception("what a step or an effect raised could not be told")
        inbox.fail(job, "unknown", type(error).__name__, None)


def do_here(inbox: Inbox, job: int, work: Work, argument: Any) -> Any:
    """Does a piece of sync work in this thread. Returns what is still to await, if anything."""
    try:
        value = work.begin(argument)
        if inspect.isawaitable(value):
            return value
        _reply(inbox, job, work, value)
    except BaseException as error:
        _fail(inbox, job, work, error)
        if not isinstance(error, Exception):
            raise
    finally:
        inbox.flush()
    return None


def _refuse_later(inbox: Inbox, job: int, work: Work, later: Any) -> None:
    """A sync function gave something to await, and its caller has no event loop for it."""
    if inspect.iscoroutine(later):
        later.close()
    words = "its function is no `async def`, but returned something to await"
    _fail(inbox, job, work, TypeError(words))
    inbox.flush()


SLICE_MS = 100
"""How long a blocked thread sleeps at a time: between two, Python looks at its signals."""


def ask_blocking(begin: Begin, timeout: float | None = None) -> Any:
    """Asks the engine and blocks until it answers. What it wants done meanwhile for this very call
    is done in this thread: the code of a sync effect runs where it was called."""
    _current.refuse_in_body("the body of a workflow asked the ledger itself: put it into a step")
    inbox = Inbox()
    until = None if timeout is None else time.monotonic() + timeout
    asked = begin(inbox, 0)
    try:
        while True:
            for kind, *parts in inbox.drain():
                if kind == "told":
                    _, value, error = parts
                    if error is not None:
                        raise from_native(*error)
                    return value
                if kind in ("send", "look"):
                    job, work, argument = parts
                    later = work.context(argument).run(do_here, inbox, job, work, argument)
                    if later is not None:
                        _refuse_later(inbox, job, work, later)
                elif kind == "transact":
                    _, work, transaction = parts
                    work.run(transaction)
            left = SLICE_MS if until is None else int((until - time.monotonic()) * 1000) + 1
            if left <= 0:
                raise TimedOut(f"no answer within {timeout} s")
            inbox.wait(min(left, SLICE_MS))
    finally:
        asked.cancel()
        inbox.close()


class Home:
    """A thread with an event loop, for a Semel that is used by sync code."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="semel-home", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise SemelError(f"no event loop could be started: {text(self._failed)}")

    def _run(self) -> None:
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            self.host = Host.of(loop)
            self._loop = loop
        except BaseException as error:
            self._failed = error
            self._started.set()
            return
        self._started.set()
        try:
            while not self._is_stopping:
                # No signal comes to this thread: it is user code that raised it, in one step or
                # body. The others live on.
                with contextlib.suppress(KeyboardInterrupt, SystemExit):
                    loop.run_forever()
        finally:
            self.host.close()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    def stop(self) -> None:
        """Ends the thread, and cancels what runs there."""
        self._is_stopping = True
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
