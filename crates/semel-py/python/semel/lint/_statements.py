"""What statements do to names, one after the other."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ._decorate import class_value, function_value
from ._frame import Frame, evaluate
from ._imports import bind_import
from ._objects import set_member
from ._sources import ATTEMPT_NAMES
from ._values import NOTHING, Unknown, Value, join, mixed

_Branches = list[Sequence[ast.stmt]]


def run(frame: Frame, body: Sequence[ast.stmt]) -> bool:
    """Looks at statements in their order. Returns whether nothing after them is reached."""
    before = frame.path
    for statement in body:
        try:
            ends = _one(frame, statement)
        except RecursionError:
            # Too deep to follow: nothing is known of this statement, and the next is looked at.
            ends = False
        if ends:
            frame.path = before
            return True
    frame.path = before
    return False


def _one(frame: Frame, node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            frame.scope.names[node.name] = function_value(frame, node)
        case ast.ClassDef():
            frame.scope.names[node.name] = class_value(frame, node)
        case ast.Import() | ast.ImportFrom():
            bind_import(frame, node)
        case ast.Assign():
            value = evaluate(frame, node.value)
            for target in node.targets:
                assign(frame, target, value)
        case ast.AnnAssign():
            if node.value is not None:
                assign(frame, node.target, evaluate(frame, node.value))
        case ast.AugAssign():
            _augmented(frame, node)
        case ast.Return():
            frame.returns.append(_returned(frame, node))
            return True
        case ast.Raise():
            for part in (node.exc, node.cause):
                if part is not None:
                    evaluate(frame, part)
            return True
        case ast.Break() | ast.Continue():
            return True
        case ast.Global() | ast.Nonlocal():
            frame.outer |= frozenset(node.names)
        case ast.Expr():
            evaluate(frame, node.value)
        case _:
            return _compound(frame, node)
    return False


def _returned(frame: Frame, node: ast.Return) -> Value:
    return Value(const=None) if node.value is None else evaluate(frame, node.value)


def _compound(frame: Frame, node: ast.stmt) -> bool:
    match node:
        case ast.If():
            return _choose(frame, evaluate(frame, node.test), [node.body, node.orelse])
        case ast.For() | ast.AsyncFor():
            element = element_of(evaluate(frame, node.iter))
            _loop(frame, node.body, lambda: _loop_target(frame, node, element))
            return run(frame, node.orelse)
        case ast.While():
            _loop(frame, node.body, lambda: evaluate(frame, node.test))
            is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            return run(frame, node.orelse) or (is_endless and not _breaks(node.body))
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                value = evaluate(frame, item.context_expr)
                if item.optional_vars is not None:
                    assign(frame, item.optional_vars, value)
            ends = run(frame, node.body)
            return ends and not _may_swallow(node)
        case ast.Match():
            return _match(frame, node)
        case ast.Assert() | ast.Delete():
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr) and isinstance(node, ast.Assert):
                    evaluate(frame, child)
        case _:
            return _try(frame, node)
    return False


def _try(frame: Frame, node: ast.stmt) -> bool:
    # `try` and `try … except*`, which Python 3.10 has no node for.
    body: list[ast.stmt] = getattr(node, "body", [])
    handlers: list[ast.ExceptHandler] = getattr(node, "handlers", [])
    ends = run(frame, body)
    after = dict(frame.scope.names)
    ends_of = [ends or run(frame, getattr(node, "orelse", []))]
    states = [dict(frame.scope.names)]
    for handler in handlers:
        frame.scope.names = dict(after)
        if handler.name:
            frame.scope.names[handler.name] = NOTHING
        ends_of.append(run(frame, handler.body))
        states.append(dict(frame.scope.names))
    _merge(frame, [state for state, over in zip(states, ends_of, strict=True) if not over], states)
    return run(frame, getattr(node, "finalbody", [])) or all(ends_of)


def _choose(frame: Frame, test: Value, arms: _Branches) -> bool:
    """Branches of which one is taken."""
    branch = next(frame.world.branches)
    frame.world.tests[branch] = test
    before, path = dict(frame.scope.names), frame.path
    states: list[dict[str, Value]] = []
    over: list[bool] = []
    for place, arm in enumerate(arms):
        frame.scope.names = dict(before)
        frame.path = (*path, (branch, place))
        over.append(run(frame, arm))
        states.append(frame.scope.names)
    frame.path = path
    open_arms = [place for place, ended in enumerate(over) if not ended]
    _merge(frame, [states[place] for place in open_arms], states)
    if any(over) and len(open_arms) == 1:
        # What follows is in the one arm that goes on.
        frame.path = (*path, (branch, open_arms[0]))
    return not open_arms


def _merge(frame: Frame, going_on: list[dict[str, Value]], all_: list[dict[str, Value]]) -> None:
    states = going_on or all_
    names = dict.fromkeys(name for state in states for name in state)
    frame.scope.names = {
        name: join(*[state[name] for state in states if name in state]) for name in names
    }


def _loop(frame: Frame, body: Sequence[ast.stmt], begin: object) -> None:
    """A body that may run any number of times: looked at twice, so that what one round leaves
    reaches the next."""
    assert callable(begin)
    # What certainly leaves in its first round is no loop.
    repeats = not isinstance(body[-1], (ast.Return, ast.Break, ast.Raise))
    noted = len(frame.events)
    for is_second in (False, True):
        before = dict(frame.scope.names)
        del frame.events[noted:]
        frame.loops += repeats
        begin()
        run(frame, body)
        frame.loops -= repeats
        states = [before, frame.scope.names]
        _merge(frame, states, states)
        if is_second:
            break


def _loop_target(frame: Frame, node: ast.For | ast.AsyncFor, element: Value) -> None:
    if isinstance(node.target, ast.Name) and node.target.id in ATTEMPT_NAMES:
        element = mixed(element, frame.taint("attempt", f"the loop over {node.target.id}", node))
    assign(frame, node.target, element)


def _match(frame: Frame, node: ast.Match) -> bool:
    subject = evaluate(frame, node.subject)
    for case in node.cases:
        for part in ast.walk(case.pattern):
            name = getattr(part, "name", None) or getattr(part, "rest", None)
            if isinstance(name, str):
                frame.scope.names[name] = mixed(subject)
    is_total = any(_takes_all(case) for case in node.cases)
    arms: _Branches = [case.body for case in node.cases]
    return _choose(frame, subject, arms if is_total else [*arms, []])


def _takes_all(case: ast.match_case) -> bool:
    pattern = case.pattern
    return case.guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _breaks(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Break) for part in body for node in ast.walk(part))


def _may_swallow(node: ast.With | ast.AsyncWith) -> bool:
    return any("suppress" in ast.dump(item.context_expr) for item in node.items)


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    load = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node.target)
    both = ast.BinOp(load, node.op, node.value)
    assign(frame, node.target, evaluate(frame, ast.copy_location(both, node)))


def assign(frame: Frame, target: ast.expr, value: Value) -> None:
    """Gives a value to a name, a member, or several."""
    match target:
        case ast.Name():
            if target.id not in frame.outer:
                frame.scope.names[target.id] = value.through(target.id)
        case ast.Tuple() | ast.List():
            for place, part in enumerate(target.elts):
                known = (value.items or {}).get(str(place))
                if known is None or any(isinstance(one, ast.Starred) for one in target.elts):
                    known = element_of(value)
                assign(frame, part.value if isinstance(part, ast.Starred) else part, known)
        case ast.Attribute() | ast.Subscript():
            _assign_member(frame, target, value)
        case _:
            pass


def _assign_member(frame: Frame, target: ast.Attribute | ast.Subscript, value: Value) -> None:
    if isinstance(target, ast.Attribute):
        name: str | None = target.attr
    else:
        const = evaluate(frame, target.slice).const
        name = None if isinstance(const, Unknown) else str(const)
    holder = target.value
    if isinstance(holder, ast.Name):
        whole = frame.scope.names.get(holder.id)
        if whole is not None:
            frame.scope.names[holder.id] = set_member(whole, name, value)
    elif isinstance(holder, (ast.Attribute, ast.Subscript)):
        _assign_member(frame, holder, set_member(evaluate(frame, holder), name, value))


def element_of(value: Value) -> Value:
    """One element of what is gone through."""
    if value.items and value.shape in ("list", "set", "tuple"):
        found = join(*value.items.values())
    elif value.shape == "dict" and value.items is not None:
        found = NOTHING if not value.taints else Value(value.taints)
    else:
        found = Value(value.everything) if value.everything else NOTHING
    # One element of a set does not depend on the order of the others.
    kept = frozenset(taint for taint in found.taints if taint.label != "unordered")
    return replace(found, taints=kept)
