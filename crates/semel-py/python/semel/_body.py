"""The code of one run, on an event loop of its own that knows neither sockets nor clocks: all it
can wait for are the commands of its run. So it does the same in every replay."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import sys
import weakref
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from . import _current
from ._command import is_command
from ._errors import ForeignAwait, Raised, Receipts, SemelError, describe, from_native, text

if TYPE_CHECKING:
    from ._ledger import App
    from ._native import RunPort
    from ._workflow import Workflow

Fault = tuple[str, str, "int | None", "Raised | None", "Receipts | None"]
Answer = tuple[int, "str | None", "Fault | None"]


class BodyTask(asyncio.Task[Any]):
    """A task that is hashed by its number: sets of tasks, as `asyncio.wait` returns and task groups
    hold, are in the same order in every replay. By its address they would not be."""

    def __init__(self, coro: Any, number: int, **options: Any) -> None:
        self._number = number  # first: being made, it is put into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class BodyLoop(asyncio.AbstractEventLoop):
    """An event loop of tasks and futures only."""

    is_semel_body = True

    def __init__(self, now: Callable[[], float]) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._numbers = itertools.count(1)
        self._now = now
        self.foreign: str | None = None
        """What the code reached for that it may not have."""

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        options.pop("eager_start", None)
        if _is_in_disorder(sys._getframe(1)) and not is_command(coro):
            coro.close()
            self.refuse(
                "`asyncio.as_completed` and `asyncio.wait` begin coroutines in an order of chance, "
                "another one in every replay: make tasks of them first, by `asyncio.create_task`"
            )
        task = BodyTask(coro, next(self._numbers), loop=self, **options)
        self._tasks.add(task)
        return task

    def run_ready(self) -> None:
        """Runs everything that can run, in order."""
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if handle.cancelled():
                    continue
                # Its task has a SystemExit, too: that ends this run, and no other one.
                with contextlib.suppress(SystemExit):
                    handle._run()
        finally:
            asyncio._set_running_loop(outer)

    def end(self) -> None:
        """Nothing of this code runs any more, except what Python itself insists on: `finally` and
        the ends of `with`. They run here and now, where nothing outside can be reached."""
        self._ready.clear()
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in [task for task in self._tasks if not task.done()]:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(Exception, SystemExit, GeneratorExit):
                    cast(Any, task.get_coro()).close()
        finally:
            asyncio._set_running_loop(outer)

    def time(self) -> float:
        return self._now()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody awaited is nobody's loss: the run is judged by what its body returns."""

    async def shutdown_asyncgens(self) -> None:
        pass

    def refuse(self, detail: str) -> NoReturn:
        """Stops the run: whatever its code does about the exception, it waits for an operator."""
        self.foreign = self.foreign or detail
        raise ForeignAwait(detail)


def _is_in_disorder(frame: FrameType | None) -> bool:
    """Whether a task is made by code of asyncio's that goes through a set of coroutines."""
    while frame is not None and frame.f_globals.get("__name__") == "asyncio.tasks":
        if frame.f_code.co_name not in ("ensure_future", "_ensure_future"):
            # In a comprehension of theirs, up to Python 3.11, or in they themselves.
            return frame.f_code.co_name in ("<setcomp>", "as_completed", "wait", "__init__")
        frame = frame.f_back
    return False


def _refuser(name: str) -> Callable[..., Any]:
    def refuse(self: BodyLoop, *args: Any, **kwargs: Any) -> Any:
        self.refuse(f"the body of a workflow may not use `{name}`: put it into a step")

    return refuse


for _name in (
    *("call_later", "call_at", "call_soon_threadsafe", "run_in_executor", "getaddrinfo"),
    *("getnameinfo", "create_connection", "create_server", "create_unix_connection"),
    *("create_datagram_endpoint", "add_reader", "remove_reader", "add_writer", "remove_writer"),
    *("sock_recv", "sock_recv_into", "sock_sendall", "sock_connect", "sock_accept", "sendfile"),
    *("subprocess_exec", "subprocess_shell", "connect_read_pipe", "connect_write_pipe"),
    *("add_signal_handler", "remove_signal_handler", "start_tls", "run_until_complete"),
    *("run_forever",),
):
    setattr(BodyLoop, _name, _refuser(_name))


class Body:
    """The code of one run, and what it waits for."""

    def __init__(self, app: App, workflow: Workflow[..., Any], port: RunPort) -> None:
        from ._context import WorkflowContext

        self.app = app
        self.workflow = workflow
        self.port = port
        # The methods that it lacks are refused by name, see above.
        self.loop = BodyLoop(lambda: port.now_ms() / 1000)  # type: ignore[abstract]
        self._waiters = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[str | None]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._is_over = False
        self._ctx = WorkflowContext(self)

    def begin(self, input: str) -> None:
        """Starts the code with its input."""
        try:
            self._task = self._start(input)
        except SemelError as error:
            self.port.fail("input_invalid", text(error), None)
        except Exception as error:
            self._fail(error)
        else:
            self._turn()

    def _start(self, input: str) -> asyncio.Task[Any]:
        args, kwargs = self.workflow.load_input(input)
        if self.workflow.instance is not None:
            args.insert(0, self.workflow.instance)
            args.insert(1, self._ctx)
        else:
            args.insert(0, self._ctx)
        context = contextvars.Context()
        context.run(_current.choose, self.app)
        return context.run(self.loop.create_task, self.workflow.function(*args, **kwargs))

    def advance(self, answers: list[Answer]) -> None:
        """Goes on with answers."""
        for waiter, value, error in answers:
            future = self._waiting.pop(waiter, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(_raisable(from_native(*error)))
        self._turn()

    def wait(self) -> tuple[int, asyncio.Future[str | None]]:
        """A place for the answer to one command."""
        if self._is_over:
            raise GeneratorExit  # in a `finally`, while the code is put away
        waiter = next(self._waiters)
        future: asyncio.Future[str | None] = asyncio.Future(loop=self.loop)
        self._waiting[waiter] = future
        return waiter, future

    def drop(self) -> None:
        """Nobody asks this code any more. It is not cancelled: it must not act on a run that it
        has lost, or that only waits."""
        self._is_over = True
        self._waiting.clear()
        self.loop.end()

    def _turn(self) -> None:
        try:
            self.loop.run_ready()
        except BaseException as error:
            # Such as KeyboardInterrupt: the run goes on elsewhere.
            self.port.give_up("store_unavailable", text(error))
            raise
        if self.loop.foreign is not None:
            self.port.give_up("foreign_await", self.loop.foreign)
            return
        task = self._task
        if task is None or not task.done():
            self.port.rest()
            return
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None:
            self._fail(failure)
            return
        try:
            self.port.finish(self.workflow.shape.result.dump(task.result()))
        except Exception as unfit:  # whatever it is: a turn that does not end is waited for
            self._fail(unfit)

    def _fail(self, error: BaseException) -> None:
        code = error.code if isinstance(error, SemelError) else "run_failed"
        self.port.fail(code, text(error), describe(error))


def _raisable(error: BaseException) -> BaseException:
    """A future cannot carry StopIteration."""
    if isinstance(error, StopIteration):
        return SemelError(text(error), code="step_failed")
    return error
