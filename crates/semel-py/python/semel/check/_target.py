"""What is checked: a workflow of a file, or an effect on its own."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from .. import _current
from .._codec import codec
from .._commands import load
from .._context import WorkflowContext
from .._declare import Declared
from .._effect import Effect
from .._errors import SemelError
from .._tools import Tool
from .._workflow import Workflow


class Missing(Exception):
    """There is no such file, or nothing of that name in it."""


class Target(NamedTuple):
    """A file, and the name of what is checked in it."""

    file: Path
    name: str

    @staticmethod
    def parse(text: str) -> Target:
        """Reads `app.py:workflow`; the name may be left out where there is only one."""
        file, _, name = text.partition(":")
        if not Path(file).is_file():
            raise Missing(f"there is no file {file}")
        return Target(Path(file).resolve(), name)


def load_target(target: Target, store: str) -> Workflow[..., Any]:
    """Loads the file, whose own Semel, if it opens one, opens this store instead."""
    _current.redirect(store)
    return find_workflow(load(target.file), target.name)


def warm(workflow: Workflow[..., Any]) -> None:
    """Makes what the first call would make: most of a life's time, where it is made in each."""
    module = sys.modules.get(workflow.function.__module__)
    found = [] if module is None else list(vars(module).values())
    for one in [workflow, *found]:
        if isinstance(one, Declared):
            with contextlib.suppress(Exception):
                # Whatever is wrong with it is said when it is used.
                for made in (*one.shape.codecs.values(), one.shape.result):
                    made.check()
    codec(Any).load("null")


def find_workflow(module: ModuleType, name: str) -> Workflow[..., Any]:
    """The workflow of this name; an effect is one of a single step."""
    found: dict[str, Any] = vars(module)
    workflows: dict[str, Workflow[..., Any]] = {
        one.name: one for one in found.values() if isinstance(one, Workflow)
    }
    if not name and len(workflows) == 1:
        return next(iter(workflows.values()))
    one: Any = found.get(name, workflows.get(name))
    if isinstance(one, Tool):
        one = cast(Tool[..., Any], one).declared
    if isinstance(one, Effect):
        return workflow_of(cast(Effect[..., Any], one))
    if isinstance(one, Workflow):
        return cast(Workflow[..., Any], one)
    effects = {
        name
        for name, one in found.items()
        if isinstance(one, Effect) or (isinstance(one, Tool) and one.is_effect)
    }
    known = ", ".join([*sorted(workflows), *sorted(effects)]) or "nothing that can be checked"
    wanted = f"no workflow or effect named {name}" if name else "not exactly one workflow"
    raise Missing(f"{module.__name__}.py has {wanted}; it has: {known}")


def workflow_of(effect: Effect[..., Any]) -> Workflow[..., Any]:
    """A workflow that does nothing but this effect: its input is an object of the parameters."""

    async def alone(ctx: WorkflowContext, arguments: dict[str, Any]) -> Any:
        args, kwargs = effect.shape.arguments(effect.shape.load(json.dumps(arguments)))
        return await ctx.step(effect, *args, **kwargs)

    return Workflow(alone, name=f"only-{effect.action}")


def why_not_forked() -> str | None:
    """Why lives cannot be forked off this process, after the file was loaded."""
    if _current.any_open():
        return "the file opens its ledger when it is imported"
    if threading.active_count() > 1:
        return "the file starts threads when it is imported"
    return None


def arguments_of(workflow: Workflow[..., Any], value: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a run, from plain JSON, typed as the workflow declares them."""
    try:
        return workflow.load_input(json.dumps(value))
    except (SemelError, ValueError, TypeError) as error:
        words = f"the input does not fit {workflow.name}: {error}"
        raise SemelError(words, code="input_invalid") from error
