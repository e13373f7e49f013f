"""Where values become keys: declarations and calls of effects, starts of runs, headers."""

from __future__ import annotations

import ast
import string
from collections.abc import Mapping
from dataclasses import dataclass

from ._frame import Args, Event, Frame
from ._objects import member
from ._sources import is_specific
from ._values import NOTHING, SINS, Func, Partial, Taint, Value, mixed

_REASONS = {
    "time": "is made of the time, so every repeat makes another one",
    "chance": "is made by chance, so every repeat makes another one",
    "attempt": "counts attempts, so every retry makes another one",
    "worker": "names the process, so a repeat on another one makes another key",
    "model": "has a model's words in it, which differ each time it is asked",
    "memory": "comes from the memory of this process, which a restart forgets",
    "unordered": "depends on an order that differs from process to process",
    "approval": "is made anew by the approval, so what was approved is done again",
    "payload": "is a whole payload, so a space or another order of members makes another one",
}
_STABLE_REASON = (
    "is {source}, the same in every replay of one run; but another run for the same request has"
    " another one"
)


@dataclass(frozen=True, eq=False)
class Part:
    """One piece of a key."""

    field: str | None
    """The parameter and its members, of a template's place."""
    value: Value


def key_parts(frame: Frame, source: Value, bound: Mapping[str, Value], node: ast.AST) -> list[Part]:
    """The pieces of a key, made as the declaration says of these parameters."""
    if isinstance(source.ref, (Func, Partial)):
        return [Part(None, _called(frame, source, bound, node))]
    if isinstance(source.const, str):
        return [*_template(frame, source.const, bound, node), Part(None, Value(source.taints))]
    if source.items is not None:
        return [
            part for one in source.items.values() for part in key_parts(frame, one, bound, node)
        ]
    return [Part(None, source)]


def _called(frame: Frame, source: Value, bound: Mapping[str, Value], node: ast.AST) -> Value:
    from ._calls import call

    inner: Value = source
    while isinstance(inner.ref, Partial):
        inner = inner.ref.fn
    if not isinstance(inner.ref, Func):
        return mixed(*bound.values())
    spec = inner.ref.node.args
    names = {one.arg for one in inner.ref.parameters}
    given = {name: value for name, value in bound.items() if spec.kwarg or name in names}
    quiet = Frame(frame.world, frame.module, frame.scope, "quiet", stack=frame.stack)
    return call(quiet, source, Args.of(given, node), node)


def _template(frame: Frame, text: str, bound: Mapping[str, Value], node: ast.AST) -> list[Part]:
    parts: list[Part] = []
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    except ValueError:
        return parts
    for field in fields:
        first, *rest = field.split(".")
        value = bound.get(first, NOTHING)
        for name in rest:
            value = member(frame, value, name, node)
        parts.append(Part(field, value.through(first)))
    return parts


def check_key(
    frame: Frame,
    value: Value,
    node: ast.AST,
    what: str,
    *,
    action: str | None = None,
    better: str | None = None,
) -> None:
    """Reports what makes a key unfit. `what` says of which thing it is the key."""
    seen: set[str] = set()
    for taint in value.labelled(*SINS):
        frame.world.blamed.add((taint.file, taint.line, taint.label))
        if taint.label in seen:
            continue
        seen.add(taint.label)
        reason = f"{what} {_reason(taint)}: {taint.way}"
        code = SINS[taint.label]
        frame.world.report(
            code, frame.module, node, reason, better=better, action=action, way=taint.way
        )


def _reason(taint: Taint) -> str:
    if taint.is_stable and taint.label in ("time", "chance"):
        return _STABLE_REASON.format(source=taint.source)
    return _REASONS[taint.label]


def better_key(function: Func) -> str | None:
    """The key that the parameters of an effect offer, if one of them names the event."""
    names = [one.arg for one in function.parameters if is_specific(one.arg)]
    if not names:
        return None
    if len(names) == 1:
        return f'key="{{{names[0]}}}"'
    return "key=[" + ", ".join(f'"{{{name}}}"' for name in names[:3]) + "]"


def check_bound(frame: Frame, function: Func, args: Args, node: ast.AST) -> None:
    """Reports keys that the arguments of one call make unfit."""
    from ._calls import bind

    declared = function.declared
    assert declared is not None
    bound = bind(frame, function, args)
    places = _places(function, args)
    for name in ("key", "downstream_key"):
        option = declared.options.get(name)
        if option is None:
            continue
        said = declared_sins(frame, function, name)
        for part in key_parts(frame, option.value, bound, node):
            # What is so in every call was said where the key is declared.
            left = [one for one in part.value.everything if _origin(one) not in said]
            where = places.get((part.field or "").partition(".")[0], node)
            what = f"the {name.replace('_', ' ')} of {declared.action}"
            check_key(frame, Value(frozenset(left)), where, what, action=declared.action)
    check_fingerprint(frame, function, bound, places, node)


def _origin(taint: Taint) -> tuple[str, str, int]:
    return (taint.label, taint.file, taint.line)


def declared_sins(frame: Frame, function: Func, name: str) -> frozenset[tuple[str, str, int]]:
    """What makes a key unfit whatever the effect is called with."""
    option = function.declared.options.get(name) if function.declared else None
    if option is None:
        return frozenset()
    place = option.node
    if place not in frame.world.declared_sins:
        parts = declared_parts(frame, function, name)
        sins = (taint for part in parts for taint in part.value.labelled(*SINS))
        frame.world.declared_sins[place] = frozenset(_origin(taint) for taint in sins)
    return frame.world.declared_sins[place]


def declared_parts(frame: Frame, function: Func, name: str = "key") -> list[Part]:
    """The pieces of a key, whoever calls."""
    from ._calls import bind

    option = function.declared.options.get(name) if function.declared else None
    if option is None:
        return []
    home = Frame(frame.world, function.module, function.scope, "quiet", stack=frame.stack)
    bound = bind(home, function, Args(), is_open=True)
    return key_parts(home, option.value, bound, option.node)


def _places(function: Func, args: Args) -> dict[str, ast.AST]:
    """Where each parameter of a call is written."""
    found: dict[str, ast.AST] = {}
    for name, (_, node) in zip(function.places, args.positional, strict=False):
        found[name.arg] = node
    found.update({name: node for name, (_, node) in args.keyword.items()})
    return found


def check_fingerprint(
    frame: Frame,
    function: Func,
    bound: Mapping[str, Value],
    places: Mapping[str, ast.AST],
    node: ast.AST,
) -> None:
    """Reports a model's words among the arguments that must be the same in every repeat."""
    declared = function.declared
    assert declared is not None
    counted = counted_parameters(function)
    for name in counted:
        words = bound.get(name, NOTHING).labelled("model")
        if not words or name in key_fields(frame, function):
            continue
        reason = (
            f"{name} of {declared.action} is a model's wording, which is another one next time;"
            f" the repeat is then refused as input_changed: {words[0].way}"
        )
        stable = [
            one.arg
            for one in function.parameters
            if not bound.get(one.arg, NOTHING).labelled("model")
        ]
        better = "declare fingerprint=[" + ", ".join(f'"{one}"' for one in stable) + "]"
        where = places.get(name, node)
        frame.world.report(
            "SML024", frame.module, where, reason, better=better, action=declared.action
        )


def counted_parameters(function: Func) -> list[str]:
    """The parameters that are part of the fingerprint, as far as the source says it."""
    declared = function.declared
    names = [one.arg for one in function.parameters]
    if declared is None or declared.kind == "transaction":
        return []
    option = declared.options.get("fingerprint")
    if option is None or option.value.const is None:
        return names
    said = option.value.const
    if isinstance(said, str) and "{" not in said:
        said = [said]
    if isinstance(said, list):
        return [name for name in names if name in said]
    return []


def key_fields(frame: Frame, function: Func) -> list[str]:
    """The parameters that the key of an effect is made of."""
    return [field.partition(".")[0] for field in declared_fields(frame, function)]


def declared_fields(frame: Frame, function: Func) -> list[str]:
    """The parameters, and which members of them, that a key is made of."""
    found: list[str] = []
    for part in declared_parts(frame, function):
        if part.field is not None:
            found.append(part.field)
        else:
            found += [taint.source for taint in part.value.labelled("field")]
    return list(dict.fromkeys(found))


def call_effect(
    frame: Frame, function: Func, args: Args, node: ast.AST, *, is_stepped: bool
) -> Value:
    """A call of an effect: it is named by its key, and gives its receipt."""
    declared = function.declared
    assert declared is not None
    event = Event(
        "effect",
        declared.action,
        node,
        frame.module,
        mixed(*args.values),
        is_stepped=is_stepped,
        family=declared.kind,
    )
    frame.emit(event)
    check_bound(frame, function, args, node)
    return frame.taint("answer", declared.action, node)


def check_passed_key(frame: Frame, value: Value, node: ast.AST) -> None:
    """Reports an idempotency key of a request that is another one each time."""
    for name, item in (value.items or {}).items():
        plain = name.lower().replace("_", "-")
        if "idempotency" in plain or plain in ("messagededuplicationid", "clientrequesttoken"):
            check_key(frame, item, node, "the idempotency key of this request")
        elif item.items is not None and plain in ("headers", "options"):
            check_passed_key(frame, item, node)
