"""Commands of a run that nobody awaits: nothing is done for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ._frame import World
from ._values import Func

_WAITS = ("sleep", "wait_for_signal", "wait_for_user", "approve", "callback", "entity")
_COMMANDS = frozenset([*_WAITS, "step", "child", "gather", "map"])
_TASKS = frozenset(["create_task", "ensure_future"])


def check_awaits(world: World, function: Func) -> None:
    """Reports commands of a body that are made and dropped."""
    ctx = function.context_name
    if ctx is None or isinstance(function.node, ast.Lambda):
        return
    names = (one for one in ast.walk(function.node) if isinstance(one, ast.Name))
    read = {one.id for one in names if isinstance(one.ctx, ast.Load)}
    for call in _dropped(function.node, read):
        name = _command(call, ctx)
        if name is not None:
            reason = f"ctx.{name}(…) is never awaited: the run ends without it"
            world.report("SML045", function.module, call, reason)


def _dropped(node: ast.AST, read: set[str]) -> Iterator[ast.Call]:
    """Calls whose value is used by nothing."""
    for one in ast.walk(node):
        if isinstance(one, ast.Expr):
            value: ast.expr | None = one.value
        elif isinstance(one, ast.Assign):
            names = [target.id for target in one.targets if isinstance(target, ast.Name)]
            is_used = len(names) < len(one.targets) or bool(read & set(names))
            value = None if is_used else one.value
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            value = None if one.target.id in read else one.value
        else:
            continue
        if isinstance(value, ast.Call):
            yield value


def _command(call: ast.Call, ctx: str) -> str | None:
    """The command that is called, perhaps for a task."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    owner = func.value.id if isinstance(func.value, ast.Name) else ""
    # A task group awaits its own.
    if (
        owner == "asyncio"
        and func.attr in _TASKS
        and call.args
        and isinstance(call.args[0], ast.Call)
    ):
        return _command(call.args[0], ctx)
    return func.attr if owner == ctx and func.attr in _COMMANDS else None
