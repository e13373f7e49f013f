"""Calls of Semel itself: steps, starts, waits."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ._frame import Args, Event, Frame
from ._objects import extern
from ._sinks import check_key
from ._values import NOTHING, Extern, Func, Partial, Value, join, mixed

_APPROVES = re.compile(r"approv|decision|review|confirm|sign.?off", re.IGNORECASE)


def call_semel(frame: Frame, path: str, args: Args, node: ast.AST) -> Value | None:
    """What a call of Semel gives; None if nothing special is known of it."""
    if path.startswith("semel.ctx."):
        return _on_context(frame, path.removeprefix("semel.ctx."), args, node)
    if path in ("semel.Semel().start", "semel.Semel().astart"):
        return _start(frame, args, node)
    if path.endswith(".signal") and path.startswith("semel.Semel()."):
        given = args.keyword.get("id")
        if given is not None:
            check_key(frame, given[0], given[1], "the id of a signal")
        return NOTHING
    if path in ("semel.Semel().find", "semel.Semel().look"):
        inputs = mixed(*args.values)
        frame.emit(Event("find", "the ledger", node, frame.module, inputs))
        return frame.taint("looked", "app.find", node)
    if path == "semel.tools":
        _bound_tools(frame, args, node)
    if path.startswith("semel.keys."):
        return mixed(*args.values)
    if path in ("semel.native_key", "semel.Retry", "semel.probe"):
        items = {name: value for name, (value, _) in args.keyword.items()}
        items.update({str(place): value for place, (value, _) in enumerate(args.positional)})
        return Value(ref=Extern(f"{path}()"), items=items)
    if path == "semel.intent":
        # Handed on as a whole it brings the key along.
        return replace(frame.taint("downstream", path, node), ref=Extern("semel.intent()"))
    if path == "semel.Semel":
        return Value(ref=Extern("semel.Semel()"))
    return None


def _on_context(frame: Frame, name: str, args: Args, node: ast.AST) -> Value | None:
    shown = f"ctx.{name}()"
    if name == "step":
        return _step(frame, args, node)
    if name == "map":
        return _map(frame, args, node)
    if name == "gather":
        values = [value for value, _ in args.positional]
        if args.rest is not None:
            return replace(mixed(*values, args.rest[0]), shape="list")
        return Value(items={str(place): one for place, one in enumerate(values)}, shape="list")
    if name == "now":
        return replace(
            frame.taint("time", shown, node, is_stable=True), ref=Extern("datetime.datetime()")
        )
    if name in ("random", "uuid"):
        return frame.taint("chance", shown, node, is_stable=True)
    if name in ("approve", "wait_for_user", "wait_for_signal"):
        return _wait(frame, name, args, node)
    if name in ("child", "entity"):
        return _named(frame, name, args, node)
    if name in ("sleep", "callback", "logger"):
        return Value(ref=extern(f"semel.ctx.{name}()"))
    return NOTHING


def _wait(frame: Frame, name: str, args: Args, node: ast.AST) -> Value:
    said = args.named("name", 0)
    word = said.const if said is not None and isinstance(said.const, str) else ""
    if name != "approve" and not _APPROVES.search(word):
        return NOTHING
    answer = frame.taint("approval", f"ctx.{name}()", node)
    frame.approved.yes = frame.approved.yes or frame.context == "body"
    return answer


def _named(frame: Frame, name: str, args: Args, node: ast.AST) -> Value:
    given = args.keyword.get("key") if name == "child" else None
    if name == "entity" and args.positional:
        given = args.positional[0]
    if given is not None:
        what = "the key of a child run" if name == "child" else "the name of an entity"
        check_key(frame, given[0], given[1], what)
    return NOTHING


def _step(frame: Frame, args: Args, node: ast.AST) -> Value:
    step_id = args.keyword.get("step_id")
    if step_id is not None:
        check_key(frame, step_id[0], step_id[1], "the id of a step")
    words = {
        name: given
        for name, given in args.keyword.items()
        if name not in ("step_id", "compensate_with")
    }
    args = Args(args.positional, words, args.rest)
    if args.positional and isinstance(args.positional[0][0].const, str):
        args = args.without_first()
    if not args.positional:
        return mixed(*args.values)
    fn = args.positional[0][0]
    return _stepped(frame, fn, args.without_first(), node)


def _stepped(frame: Frame, fn: Value, args: Args, node: ast.AST) -> Value:
    from ._calls import call, call_declared

    ref = fn.ref
    if isinstance(ref, Partial):
        given = [(value, node) for value in ref.args]
        words = {name: (value, node) for name, value in ref.kwargs.items()}
        merged = Args([*given, *args.positional], {**words, **args.keyword}, args.rest)
        return _stepped(frame, ref.fn, merged, node)
    if isinstance(ref, Func) and ref.declared is not None:
        return call_declared(frame, ref, args, node, is_stepped=True)
    # A plain callable: its own step, whose insides are judged from here.
    inner = Frame(
        frame.world,
        frame.module,
        frame.scope,
        "step",
        path=frame.path,
        loops=frame.loops,
        stack=frame.stack,
        approved=frame.approved,
    )
    found = call(inner, fn, args, node)
    frame.events.extend(inner.events)
    return found


def _map(frame: Frame, args: Args, node: ast.AST) -> Value:
    from ._statements import element_of

    if len(args.positional) < 2:
        return mixed(*args.values)
    fn, (items, where) = args.positional[0][0], args.positional[1]
    return replace(_stepped(frame, fn, Args([(element_of(items), where)]), node), shape="list")


def _start(frame: Frame, args: Args, node: ast.AST) -> Value:
    given = args.keyword.get("key")
    if given is not None and given[0].const is not None:
        check_key(frame, given[0], given[1], "the key of a run")
    elif args.rest is None or given is not None:
        reason = "this run has no key: whoever repeats the request starts another one"
        frame.world.report("SML011", frame.module, node, reason)
    return join(Value(ref=Extern("semel.Semel().start()")))


def _bound_tools(frame: Frame, args: Args, node: ast.AST) -> None:
    """What a program binds to its tools is what their keys are made of."""
    tools = args.positional[0][0] if args.positional else NOTHING
    for tool in (tools.items or {}).values():
        if isinstance(tool.ref, Func) and tool.ref.declared is not None:
            from ._sinks import check_bound

            names = {parameter.arg for parameter in tool.ref.parameters}
            words = {name: given for name, given in args.keyword.items() if name in names}
            check_bound(frame, tool.ref, Args([], words), node)
