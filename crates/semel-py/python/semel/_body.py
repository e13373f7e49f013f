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
from ._errors import (
    Fail,
    ForeignAwait,
    Raised,
    Receipts,
    SemelError,
    describe,
    each,
    from_native,
    text,
)
from ._unawaited import BodyTask, Unawaited

if TYPE_CHECKING:
    from ._ledger import App
    from ._native import RunPort
    from ._workflow import Workflow

Fault = tuple[str, str, "int | None", "Raised | None", "Receipts | None"]
Answer = tuple[int, "str | None", "Fault | None"]
_NAMED_MAX = 10
"""So many forgotten commands are named."""


class BodyLoop(asyncio.AbstractEventLoop):
    """An event loop of tasks and futures only."""

    is_semel_body = True

    def __init__(self, now: Callable[[], float], unawaited: Unawaited) -> None:
        self._unawaited = unawaited
        self._ready: deque[asyncio.Handle] = deque()
        self.tasks: weakref.WeakSet[BodyTask] = weakref.WeakSet()
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
        command = self._unawaited.handed(coro)
        task = BodyTask(coro, next(self._numbers), command, loop=self, **options)
        self.tasks.add(task)
        return task

    def do(self, coro: Any) -> None:
        """A task of our own, which nobody awaits."""
        cast(BodyTask, self.create_task(coro)).is_awaited = True

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
            for task in [task for task in self.tasks if not task.done()]:
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
        self.unawaited = Unawaited()
        self.loop = BodyLoop(lambda: port.now_ms() / 1000, self.unawaited)  # type: ignore[abstract]
        self._waiters = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[str | None]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._is_over = False
        self._stopped: tuple[str, str, str] | None = None
        self._answers: dict[int, tuple[BaseException, str]] = {}
        self._later: list[Callable[[], Any]] = []
        self._ctx = WorkflowContext(self)

    def begin(self, input: str) -> None:
        """Starts the code with its input."""
        try:
            self._task = self._start(input)
        except SemelError as error:
            if self.workflow.on_error == "fail":
                self._fail(error)
            else:
                self.port.pause("input_invalid", text(error), None)
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
            self.unawaited.answered(waiter)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                raised = _raisable(from_native(*error))
                # A value that cannot be stored as annotated is a slip, and no answer of the world.
                if not isinstance(raised, SemelError) or raised.code != "input_invalid":
                    self.answer(raised, error[0])
                future.set_exception(raised)
        self._turn()

    def answer(self, error: BaseException, code: str) -> BaseException:
        """The exception, known as the answer of a command."""
        self._answers[id(error)] = (error, code)  # kept, so that no other one has its id
        return error

    def stop(self, code: str, detail: str, id: str) -> None:
        """Pauses the run on this command, whatever the code does until the end of its turn."""
        self._stopped = self._stopped or (code, detail, id)

    def later(self, do: Callable[[], Any]) -> None:
        """Does this at the end of the turn, unless the code has ended by then."""
        self._later.append(do)

    def wait(self, id: str) -> tuple[int, asyncio.Future[str | None]]:
        """A place for the answer to the command of this id."""
        if self._is_over:
            raise GeneratorExit  # in a `finally`, while the code is put away
        waiter = next(self._waiters)
        future: asyncio.Future[str | None] = asyncio.Future(loop=self.loop)
        self._waiting[waiter] = future
        self.unawaited.opened(waiter, id, asyncio.current_task(self.loop))
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
            while self._later and self._task is not None and not self._task.done():
                self._later.pop(0)()
                self.loop.run_ready()
        except BaseException as error:
            # Such as KeyboardInterrupt: the run goes on elsewhere.
            self.port.release(text(error))
            raise
        if self.loop.foreign is not None:
            self.port.pause("foreign_await", self.loop.foreign, None)
            return
        if self._stopped is not None:
            self.port.pause(*self._stopped)
            return
        task = self._task
        if task is None or not task.done():
            self.port.rest()
            return
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None:
            self._fail(failure)
            return
        forgotten = self.unawaited.names(task, self.loop.tasks)
        if forgotten:
            named = ", ".join(forgotten[:_NAMED_MAX]) + ", …" * (len(forgotten) > _NAMED_MAX)
            self.port.pause("not_awaited", f"the body ended and never awaited: {named}", None)
            return
        try:
            self.port.finish(self.workflow.shape.result.dump(task.result()))
        except Exception as unfit:  # whatever it is: a turn that does not end is waited for
            self._fail(unfit)

    def _fail(self, error: BaseException) -> None:
        code = error.code if isinstance(error, SemelError) else None
        unasked = (None, None)
        answers = [self._answers.get(id(one), unasked)[1] for one in each(error)]
        declared = [self._is_declared(one) for one in each(error)]
        causes = list(zip(declared, answers, strict=True))
        self.port.fail(code, text(error), describe(error), causes)

    def _is_declared(self, error: BaseException) -> bool:
        """Whether the author says that it fails the run."""
        return self.workflow.on_error == "fail" or isinstance(error, (Fail, *self.workflow.fails))


def _raisable(error: BaseException) -> BaseException:
    """A future cannot carry StopIteration."""
    if isinstance(error, StopIteration):
        return SemelError(text(error), code="step_failed")
    return error
