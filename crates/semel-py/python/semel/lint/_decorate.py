"""Definitions of functions and classes, and what their decorators make of them."""

from __future__ import annotations

import ast

from ._declared import Declared, Kind, Option, is_decorator, partial_options
from ._frame import Frame, evaluate
from ._retrying import retrying_decorator
from ._values import Class, Extern, Func, Scope, Value

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def function_value(frame: Frame, node: _Definition) -> Value:
    """A function as its decorators declare it."""
    declared: Declared | None = None
    is_tool = reads = False
    for decorator in reversed(node.decorator_list):
        is_call = isinstance(decorator, ast.Call)
        head = evaluate(frame, decorator.func if isinstance(decorator, ast.Call) else decorator)
        kind = is_decorator(head)
        if kind is not None:
            declared = _declare(frame, node, decorator, head, kind)
        elif isinstance(head.ref, Extern) and head.ref.path == "semel.tool":
            is_tool = True
            reads = is_call and "read=True" in ast.unparse(decorator)
        elif (retrying := retrying_decorator(head)) is not None:
            frame.world.retried[node] = frame.module, decorator, retrying
        elif isinstance(decorator, ast.Call):
            for word in (*decorator.args, *(one.value for one in decorator.keywords)):
                evaluate(frame, word)
    if is_tool and declared is not None:
        declared = Declared(
            declared.kind, declared.action, declared.options, declared.node, is_tool=True
        )
    elif is_tool and reads:
        declared = Declared("read", node.name, {}, node.decorator_list[0], is_tool=True)
    found = Func(node, frame.module, frame.scope, declared)
    frame.world.functions[node] = found
    return Value(ref=found)


def _declare(
    frame: Frame, node: _Definition, decorator: ast.expr, head: Value, kind: Kind
) -> Declared:
    options = partial_options(head, decorator)
    action = node.name.replace("_", "-") if kind in ("effect", "transaction") else node.name
    if isinstance(decorator, ast.Call):
        for word in decorator.keywords:
            if word.arg is not None:
                options[word.arg] = Option(evaluate(frame, word.value), word.value)
            else:
                _spread(options, evaluate(frame, word.value), word.value)
        if decorator.args:
            first = evaluate(frame, decorator.args[0])
            options.setdefault("action", Option(first, decorator.args[0]))
    said = options.get("action") or options.get("name")
    if said is not None and isinstance(said.value.const, str):
        action = said.value.const
    return Declared(kind, action, options, decorator)


def _spread(options: dict[str, Option], given: Value, node: ast.expr) -> None:
    """`@effect("x", **COMMON)`."""
    for name, value in (given.items or {}).items():
        options[name] = Option(value, node)


def class_value(frame: Frame, node: ast.ClassDef) -> Value:
    """A class: its body has a scope of its own."""
    from ._statements import run

    inner = Scope({}, frame.scope)
    body = Frame(
        frame.world, frame.module, inner, frame.context, stack=frame.stack, approved=frame.approved
    )
    run(body, node.body)
    fields = {
        name: value.through(f"{node.name}.{name}") if not isinstance(value.ref, Func) else value
        for name, value in inner.names.items()
    }
    # Methods do not see the names of their class.
    for value in fields.values():
        if isinstance(value.ref, Func) and value.ref.scope is inner:
            object.__setattr__(value.ref, "scope", frame.scope)
    kind = Class(node, frame.module, Scope(fields, frame.scope))
    for value in fields.values():
        if isinstance(value.ref, Func):
            frame.world.owners[value.ref.node] = kind
    return Value(ref=kind)
