"""Calls: of functions and classes of the project they are followed, with the values they get."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._externs import call_extern, normalised
from ._frame import DEEPEST, Args, Event, Frame, evaluate
from ._objects import bases, in_class, member, parameter, set_member
from ._sinks import call_effect
from ._values import (
    NOTHING,
    Class,
    Extern,
    Func,
    Instance,
    Partial,
    Scope,
    Unknown,
    Value,
    join,
    mixed,
)

_CLEANING = frozenset(["strip", "lower", "casefold", "split", "upper", "normalize", "rstrip"])
_ADDING = frozenset(["append", "add", "extend", "update", "insert", "setdefault", "appendleft"])


def call_node(frame: Frame, node: ast.Call) -> Value:
    """What a call gives."""
    if not isinstance(node.func, ast.Attribute):
        return call(frame, evaluate(frame, node.func), arguments(frame, node), node)
    base = evaluate(frame, node.func.value)
    fn = member(frame, base, node.func.attr, node.func)
    args = arguments(frame, node)
    if fn.ref is None:
        return _method(frame, node.func, base, args, node)
    return call(frame, fn, args, node)


def arguments(frame: Frame, node: ast.Call) -> Args:
    """The arguments of a call."""
    found = Args()
    loose: list[Value] = []
    for one in node.args:
        value = evaluate(frame, one)
        if not isinstance(one, ast.Starred):
            found.positional.append((value, one))
        elif value.items is not None and value.shape == "list" and not loose:
            found.positional.extend((item, one) for item in value.items.values())
        else:
            loose.append(mixed(value))
    for word in node.keywords:
        value = evaluate(frame, word.value)
        if word.arg is not None:
            found.keyword[word.arg] = (value, word.value)
        elif value.items is not None and not value.taints:
            found.keyword.update({name: (item, word) for name, item in value.items.items()})
        else:
            loose.append(mixed(value))
    if loose:
        found.rest = (mixed(*loose), node)
    return found


def call(frame: Frame, fn: Value, args: Args, node: ast.AST) -> Value:
    """Calls a value."""
    ref = fn.ref
    if isinstance(ref, Partial):
        given = [(value, node) for value in ref.args]
        words = {name: (value, node) for name, value in ref.kwargs.items()}
        merged = Args([*given, *args.positional], {**words, **args.keyword}, args.rest)
        return call(frame, ref.fn, merged, node)
    if isinstance(ref, Func):
        if ref.is_bare:
            return _past_the_ledger(frame, ref, args, node)
        if ref.declared is not None:
            return call_declared(frame, ref, args, node, is_stepped=False)
        return call_function(frame, ref, args, node)
    if isinstance(ref, Class):
        return construct(frame, ref, args, node)
    if isinstance(ref, Extern):
        return call_extern(frame, fn, ref.path, args, node)
    return mixed(fn, *args.values)


def _past_the_ledger(frame: Frame, function: Func, args: Args, node: ast.AST) -> Value:
    """Calls the function of an effect without the effect."""
    assert function.declared is not None
    what = function.declared.action
    frame.emit(Event("bare", what, node, frame.module, mixed(*args.values)))
    return frame.taint("answer", what, node)


def call_declared(
    frame: Frame, function: Func, args: Args, node: ast.AST, *, is_stepped: bool
) -> Value:
    """Calls a function with a declaration, as a step or directly."""
    declared = function.declared
    assert declared is not None
    if declared.sends:
        return call_effect(frame, function, args, node, is_stepped=is_stepped)
    if declared.kind == "model":
        return frame.taint("model", f"{function.name}(), a model's answer", node)
    if declared.kind == "workflow":
        return NOTHING
    quiet = Frame(
        frame.world, frame.module, frame.scope, "quiet", stack=frame.stack, approved=frame.approved
    )
    # What it does inside is judged where it is defined, once.
    return call_function(quiet if is_stepped else frame, function, args, node)


def call_function(frame: Frame, function: Func, args: Args, node: ast.AST) -> Value:
    """Follows a call into a function of the project."""
    world = frame.world
    too_deep = len(frame.stack) >= DEEPEST or function.node in frame.stack
    if too_deep or world.is_tired:
        return mixed(*args.values)
    bound = bind(frame, function, args)
    owner = NOTHING if function.owner is None else function.owner
    signature = (
        id(function.node),
        id(function.scope),
        frame.context,
        frame.approved.yes,
        owner.signature(),
        tuple((name, value.signature()) for name, value in bound.items()),
    )
    if signature not in world.known:
        world.calls += 1
        world.left -= 1
        world.known[signature] = _follow(frame, function, bound)
    result, events = world.known[signature]
    frame.adopt(events, node, f"{function.name}()")
    return result if function.name == "lambda" else result.through(f"{function.name}()")


def _follow(frame: Frame, function: Func, bound: dict[str, Value]) -> tuple[Value, list[Event]]:
    inner = Frame(
        frame.world,
        function.module,
        Scope(dict(bound), function.scope),
        frame.context,
        stack=(*frame.stack, function.node),
        approved=frame.approved,
    )
    _bind_owner(function, inner.scope)
    return body_of(inner, function), inner.events


def _bind_owner(function: Func, scope: Scope) -> None:
    names = [*function.node.args.posonlyargs, *function.node.args.args]
    if names and names[0].arg in ("self", "cls"):
        scope.names[names[0].arg] = function.owner or NOTHING


def body_of(frame: Frame, function: Func) -> Value:
    """Looks at the body of a function; its scope has the parameters."""
    from ._statements import run

    if isinstance(function.node, ast.Lambda):
        return evaluate(frame, function.node.body)
    run(frame, function.node.body)
    return join(*frame.returns) if frame.returns else NOTHING


def bind(frame: Frame, function: Func, args: Args, *, is_open: bool = False) -> dict[str, Value]:
    """The parameters of a function with the values of a call; those that nobody gave have their
    defaults, or with `is_open` are any caller's."""
    found: dict[str, Value] = {}
    spec = function.node.args
    names = function.places
    if function.context_name is not None:
        found[function.context_name] = Value(ref=Extern("semel.ctx"))
    for name, (value, _) in zip(names, args.positional, strict=False):
        found[name.arg] = value
    every = [*names, *spec.kwonlyargs]
    for name in every:
        if name.arg in args.keyword:
            found[name.arg] = args.keyword[name.arg][0]
    missing = [name for name in every if name.arg not in found]
    defaults = default_values(frame, function)
    for name in missing:
        if args.rest is not None:
            found[name.arg] = join(args.rest[0], defaults.get(name.arg, NOTHING))
        elif is_open:
            default = defaults.get(name.arg, NOTHING)
            any_ = parameter(frame, name, function.scope)
            found[name.arg] = replace(any_, taints=any_.taints | default.everything)
        else:
            found[name.arg] = defaults.get(name.arg, NOTHING)
    _bind_rest(found, spec, args, [name.arg for name in every], len(names))
    return found


def _bind_rest(
    found: dict[str, Value], spec: ast.arguments, args: Args, names: list[str], count: int
) -> None:
    loose = NOTHING if args.rest is None else args.rest[0]
    if spec.vararg is not None:
        left = [value for value, _ in args.positional[count:]]
        items = {str(place): value for place, value in enumerate(left)}
        found[spec.vararg.arg] = Value(loose.taints, items=items, shape="list")
    if spec.kwarg is not None:
        rest = {name: value for name, (value, _) in args.keyword.items() if name not in names}
        found[spec.kwarg.arg] = Value(loose.taints, items=rest, shape="dict")


def default_values(frame: Frame, function: Func) -> dict[str, Value]:
    """The defaults of a function's parameters. They are computed once, when it is defined."""
    spec = function.node.args
    names = [*spec.posonlyargs, *spec.args]
    pairs = list(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    pairs += [
        (name, default)
        for name, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        if default is not None
    ]
    quiet = Frame(frame.world, function.module, Scope({}, function.scope), "quiet")
    quiet.stack = (*frame.stack, function.node)
    return {
        name.arg: evaluate(quiet, default).through(f"the default of {name.arg}")
        for name, default in pairs
    }


def construct(frame: Frame, kind: Class, args: Args, node: ast.AST) -> Value:
    """An object of a class of the project."""
    me = Value(ref=Instance(kind), items={})
    init = in_class(frame, kind, "__init__")
    if init is not None and isinstance(init.ref, Func):
        function = replace(init.ref, owner=me)
        if len(frame.stack) >= DEEPEST or function.node in frame.stack:
            return replace(me, items=None, taints=mixed(*args.values).taints)
        inner = Frame(
            frame.world,
            function.module,
            Scope(bind(frame, function, args), function.scope),
            frame.context,
            stack=(*frame.stack, function.node),
            approved=frame.approved,
        )
        own = function.node.args.args[0].arg if function.node.args.args else "self"
        inner.scope.names[own] = me
        body_of(inner, function)
        frame.adopt(inner.events, node, f"{kind.node.name}()")
        return inner.scope.names[own]
    fields = _fields(frame, kind)
    items = dict(fields)
    for name, (value, _) in zip(fields, args.positional, strict=False):
        items[name] = value
    items.update({name: value for name, (value, _) in args.keyword.items()})
    loose = NOTHING if args.rest is None else args.rest[0]
    return Value(loose.taints, Instance(kind), items)


def _fields(frame: Frame, kind: Class) -> dict[str, Value]:
    """The fields of a class of data, in their order, with their defaults."""
    found: dict[str, Value] = {}
    for base in bases(frame, kind):
        found.update(_fields(frame, base))
    for node in kind.node.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = kind.scope.names.get(node.target.id, NOTHING)
    return found


def _method(frame: Frame, func: ast.Attribute, base: Value, args: Args, node: ast.Call) -> Value:
    """A method of a value of which only the origin is known."""
    name = func.attr
    if name in _ADDING and isinstance(func.value, ast.Name):
        whole = frame.scope.names.get(func.value.id)
        if whole is not None:
            added = set_member(whole, None, mixed(*args.values))
            frame.scope.names[func.value.id] = added
    known = _known_method(frame, base, name, args)
    if known is not None:
        return known
    made = mixed(base, *args.values)
    if name in _CLEANING:
        return normalised(made)
    found = call_extern(frame, made, f".{name}", args, node)
    if name in ("model_dump_json", "json") and base.labelled("field") and not args.positional:
        return join(found, frame.taint("payload", f"{ast.unparse(func)}()", node))
    return found


def _known_method(frame: Frame, base: Value, name: str, args: Args) -> Value | None:
    """Methods of containers whose members are known."""
    if name == "get" and base.items is not None and args.positional:
        place = args.positional[0][0].const
        if not isinstance(place, Unknown) and str(place) in base.items:
            return base.items[str(place)]
        return join(*[value for value, _ in args.positional[1:]], Value(base.taints))
    if name in ("model_dump", "dict", "copy", "_asdict") and base.items is not None:
        return replace(base, ref=None, shape="dict")
    if name in ("model_copy", "_replace") and base.items is not None:
        update = args.named("update") or Value(items={n: v for n, (v, _) in args.keyword.items()})
        return replace(base, items={**base.items, **(update.items or {})})
    if name in ("values", "items", "keys") and base.items is not None and not args.positional:
        return Value(base.everything, shape="list")
    return None
