"""What the code of a workflow works with. Everything it does outside goes through here, is
recorded, and is answered from the record when the run is replayed."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from . import _current
from ._asks import Asks
from ._children import Children
from ._command import command
from ._declare import Declared, Function
from ._effect import Bound, Effect
from ._entity import Entities
from ._errors import InDoubt, SemelError
from ._transaction import Transactional
from ._undo import Undo, undo_of
from ._waits import Waits
from ._work import StepWork
from ._workflow import Workflow

if TYPE_CHECKING:
    from ._body import Body
    from ._ledger import App
    from ._native import RunPort

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

if TYPE_CHECKING:
    Undoes = Effect[Concatenate[T, ...], Any] | Effect[Concatenate["StepContext", T, ...], Any]


@dataclass(frozen=True)
class StepContext:
    """What a step may know of the run that it belongs to."""

    app: App
    run_id: str
    key: str
    workflow: str
    attempt: int = 1

    def at(self, attempt: int) -> StepContext:
        """The same step, tried again."""
        if attempt == self.attempt:
            return self
        return replace(self, attempt=attempt)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names the run."""
        logger = logging.getLogger(f"semel.workflow.{self.workflow}")
        return logging.LoggerAdapter(logger, {"run_id": self.run_id, "attempt": self.attempt})


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter  # Python 3.10 has no parameters for it


class _QuietLogger(_Adapter):
    """Says nothing while the run is replayed: it was said before."""

    def __init__(self, port: RunPort) -> None:
        logger = logging.getLogger(f"semel.workflow.{port.workflow}")
        super().__init__(logger, {"run_id": port.run_id})
        self._port = port

    def isEnabledFor(self, level: int) -> bool:
        return not self._port.is_replaying and super().isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**dict(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs


class WorkflowContext(Waits, Children, Entities, Asks):
    """A run, as its own code sees it.

    The code may wait for what this offers and for nothing else: sockets, timers and threads belong
    into steps. What it does must follow from its input and from what steps returned."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._port = port = body.port
        self._step = StepContext(body.app, port.run_id, port.key, port.workflow)

    # Those with words of ours come first: to the others they would be arguments of the function.
    @overload
    def step(
        self,
        fn: Effect[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,
        compensate_with: Undoes[T],
        step_id: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        fn: Effect[..., T],
        /,
        *args: Any,
        compensate_with: Undoes[T],
        step_id: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, fn: Callable[..., Awaitable[T]], /, *args: Any, step_id: str | None, **kwargs: Any
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, fn: Callable[..., T], /, *args: Any, step_id: str | None, **kwargs: Any
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        step_id: str | None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, fn: Callable[..., T], /, *args: Any, step_id: str | None, **kwargs: Any
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        fn: Callable[Concatenate[WorkflowContext, P], Awaitable[T]]
        | Callable[Concatenate[StepContext, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        fn: Callable[Concatenate[WorkflowContext, P], T] | Callable[Concatenate[StepContext, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Does one step, once: a function, a model call or an effect; its declaration says which.

        What it returns is recorded; a replay gets the record. `step_id` names the step explicitly,
        instead of by its function and how many came before. An undeclared callable is a plain step,
        named by its own name or by a text before it: `ctx.step("fetch", lambda: …)`.

        `compensate_with=refund` names the effect that takes this one back, should the run fail or
        be cancelled: its first parameter gets the receipt, the others what this one was called
        with, by name."""
        step_id: str | None = kwargs.pop("step_id", None)
        undone_by: Any = kwargs.pop("compensate_with", None)
        name = None
        if isinstance(fn, str):
            name, fn, args = fn, args[0], args[1:]
        while isinstance(fn, functools.partial):
            args, kwargs, fn = (*fn.args, *args), {**fn.keywords, **kwargs}, fn.func
        if isinstance(fn, Workflow):
            raise SemelError("a workflow is no step", code="input_invalid")
        if isinstance(fn, Transactional):
            fn.refuse_in_run()
        if isinstance(fn, Effect):
            effect = cast(Effect[..., Any], fn)
            id = self._port.command_id(name or effect.name, step_id)
            undo = undo_of(effect, undone_by, args, kwargs)
            return self._effect(id, effect, effect.bind(args, kwargs), undo)
        if undone_by is not None:
            detail = "compensate_with takes back an effect, and this step is none"
            raise SemelError(detail, code="input_invalid")
        is_declared = isinstance(fn, Function)
        declared = cast(Function[..., Any], fn) if is_declared else _undeclared(fn, name)
        id = self._port.command_id(name or declared.name, step_id)
        request = None
        # What a method is asked depends on its object, which nobody can compare.
        if declared.is_model and declared.instance is None:
            values = declared.shape.bind(args, kwargs)
            request = f"[{json.dumps(declared.name)},{declared.shape.dump(values)}]"
        work = self._work(declared, args, kwargs)
        return self._plain(id, declared, work, request)

    def _work(
        self, declared: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> StepWork:
        function, shape, instance = declared.function, declared.shape, declared.instance

        def call() -> Any:
            before = () if instance is None else (instance,)
            if shape.takes_ctx:
                before = (*before, _current.step_context())
            return function(*before, *args, **kwargs)

        return StepWork(call, shape.is_async, shape.result, declared.no_retry, self._step)

    @command
    async def _plain(
        self, id: str, declared: Function[..., Any], work: StepWork, request: str | None
    ) -> Any:
        waiter, answer = self._body.wait(id)
        exhausted = declared.exhausted or self._body.workflow.exhausted
        self._port.step(waiter, id, work, declared.again, exhausted == "fail", request)
        return self._typed(id, declared.shape.result, await answer)

    @command
    async def _effect(
        self, id: str, effect: Effect[..., Any], bound: Bound, undo: Undo | None
    ) -> Any:
        waiter, answer = self._body.wait(id)
        app, step = self._body.app, self._step
        wish = effect.wish(bound, app, step)
        undoing = None if undo is None else undo.effect.wish(undo.bound, app, step)
        receipt_as = None if undo is None else undo.receipt_as
        self._port.effect(waiter, id, wish, undoing, receipt_as)
        try:
            receipt = await answer
        except InDoubt as doubt:
            if effect.goes_on:
                return doubt
            raise
        return self._typed(id, effect.shape.result, receipt)

    async def gather(
        self, *awaitables: Awaitable[Any], return_exceptions: bool = False
    ) -> list[Any]:
        """Waits for all, at once. The results are in the order of the awaitables."""
        return list(await asyncio.gather(*awaitables, return_exceptions=return_exceptions))

    def map(
        self,
        fn: Callable[[Item], Awaitable[T]] | Callable[[Item], T],
        items: Iterable[Item],
        *,
        max_concurrency: int = 10,
    ) -> Coroutine[Any, Any, list[T]]:
        """Does one step for each item, at most so many at once. The results are in the order of the
        items."""
        if max_concurrency < 1:
            raise ValueError("max_concurrency is at least 1")
        name = f"map {getattr(fn, '__name__', 'of a callable')}"
        mapped = self._map(name, fn, items, max_concurrency)
        self._body.unawaited.made(mapped, name)
        return mapped

    async def _map(self, name: str, fn: Any, items: Iterable[Any], max_concurrency: int) -> Any:
        self._body.unawaited.began(name)
        todo = iter(enumerate(items))
        results: dict[int, Any] = {}

        async def work() -> None:
            for place, item in todo:
                results[place] = await self.step(fn, item)

        workers = [asyncio.ensure_future(work()) for _ in range(max_concurrency)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            raise
        return [results[place] for place in sorted(results)]

    def now(self) -> datetime:
        """The time of the last thing the run learnt: the same in every replay.

        At the start of the run it is the time at which a worker first took it.
        """
        return datetime.fromtimestamp(self._port.now_ms() / 1000, timezone.utc)

    def random(self) -> float:
        """A number from zero up to one, the same in every replay."""
        # Of the last 62 bits, which are the random ones of a UUID, 53 fit into a float.
        return ((int(self._port.chance()[16:], 16) & (1 << 62) - 1) >> 9) / (1 << 53)

    def uuid(self) -> uuid.UUID:
        """A UUID, the same in every replay."""
        return uuid.UUID(self._port.chance())

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._port.run_id

    @property
    def key(self) -> str:
        """The key under which the run was started."""
        return self._port.key

    @property
    def attempt(self) -> int:
        """In the code of a step: which attempt of it this is. In the body: 1."""
        return _current.attempt()

    @property
    def is_replaying(self) -> bool:
        """Whether what the code does now was done before."""
        return self._port.is_replaying

    @functools.cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent while the run is replayed."""
        return _QuietLogger(self._port)


def _undeclared(fn: Any, name: str | None) -> Function[..., Any]:
    """A plain callable as a step."""
    if isinstance(fn, Declared):
        raise SemelError(f"{fn!r} is no step", code="input_invalid")
    if name is None and getattr(fn, "__name__", "<lambda>") == "<lambda>":
        detail = 'a callable without a name needs one: ctx.step("name", callable)'
        raise SemelError(detail, code="name_invalid")
    instance = getattr(fn, "__self__", None)
    if instance is not None and hasattr(fn, "__func__"):
        declared: Function[..., Any] = Function(fn.__func__, name)
        declared.instance = instance
        return declared
    return Function(fn, name)
