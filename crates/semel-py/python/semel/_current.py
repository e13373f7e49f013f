"""Which Semel, and which step, the running code belongs to."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ._errors import NotConfigured

if TYPE_CHECKING:
    from ._context import StepContext
    from ._ledger import App

_chosen: ContextVar[App | None] = ContextVar("semel_app", default=None)
_before: ContextVar[tuple[App | None, ...]] = ContextVar("semel_app_before", default=())
"""What was chosen around each open block. Not kept in the Semel: threads share that."""
_step: ContextVar[StepContext | None] = ContextVar("semel_step", default=None)
_open: weakref.WeakSet[App] = weakref.WeakSet()
_instead: list[str] = []
"""The store that is opened whatever store is named: a check never touches one of its user's."""


def redirect(url: str) -> None:
    """From now on every Semel opens this store."""
    _instead[:] = [url]


@contextlib.contextmanager
def redirected(url: str) -> Generator[None, None, None]:
    """Meanwhile every Semel opens this store."""
    before = list(_instead)
    redirect(url)
    try:
        yield
    finally:
        _instead[:] = before


def directed(url: str) -> str:
    """The store to open for this one."""
    return _instead[0] if _instead else url


def any_open() -> bool:
    """Whether a Semel is open."""
    return bool(_open)


def opened(app: App) -> None:
    """From now on direct calls may use this one."""
    _open.add(app)


def closed(app: App) -> None:
    """It is not to be used any more."""
    _open.discard(app)


def enter_step(app: App, step: StepContext | None) -> None:
    """Marks the running context as the code of a step or an effect of this Semel."""
    _chosen.set(app)
    _step.set(step)


def choose(app: App | None) -> None:
    """Marks the running context as code that uses this Semel."""
    _chosen.set(app)


def push(app: App) -> None:
    """From here on, this one: the begin of `with app.as_current():`."""
    _before.set((*_before.get(), _chosen.get()))
    _chosen.set(app)


def pop() -> None:
    """What was chosen before is chosen again: the end of `with app.as_current():`."""
    *before, last = _before.get() or (None,)
    _before.set(tuple(before))
    _chosen.set(last)


def chosen() -> App | None:
    """The Semel that the running context was told to use."""
    return _chosen.get()


def step_context() -> StepContext:
    """The step that the running code is; for a direct call one of no run."""
    step = _step.get()
    if step is not None:
        return step
    from ._context import StepContext

    return StepContext(app(), run_id="", key="", workflow="")


def attempt() -> int:
    """Which attempt of its step the running code is; 1 outside of one."""
    step = _step.get()
    return 1 if step is None else step.attempt


def refuse_in_body(detail: str) -> None:
    """Stops a run whose body does what only a step may do."""
    loop: Any = asyncio._get_running_loop()
    if getattr(loop, "is_semel_body", False):
        loop.refuse(detail)


def app() -> App:
    """The Semel for a direct call: the one that was chosen, or the only one that is open."""
    refuse_in_body("an effect was called in the body of a workflow; use `await ctx.step(...)`")
    found = _chosen.get()
    if found is not None:
        return found
    apps = list(_open)
    if len(apps) == 1:
        return apps[0]
    if not apps:
        raise NotConfigured("no Semel is open: make one first, such as Semel('sqlite:semel.db')")
    raise NotConfigured(f"{len(apps)} Semels are open: choose one with `with app.as_current():`")
