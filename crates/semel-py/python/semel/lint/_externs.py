"""Calls of what is not of the project: clocks and dice, clients, and the standard library."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ._frame import Args, Event, Frame
from ._objects import extern
from ._retrying import retries
from ._sources import called, is_worker_variable
from ._values import NOTHING, Extern, Partial, Unknown, Value, join, mixed, words
from ._writes import FOREIGN, Outside, is_built, may_write, outside

_PURE = frozenset(["isinstance", "issubclass", "callable", "hasattr", "print", "type", "super"])
_FACTORIES = words(
    """
    pydantic.Field pydantic.fields.Field dataclasses.field attrs.field attr.ib attr.field
    sqlmodel.Field msgspec.field pydantic.PrivateAttr attrs.Factory
    """
)


def call_extern(frame: Frame, fn: Value, path: str, args: Args, node: ast.AST) -> Value:
    """What a call of something outside gives."""
    if path.startswith("semel."):
        from ._semel import call_semel

        found = call_semel(frame, path, args, node)
        if found is not None:
            return found
    label = called(path, len(args.values))
    if label is not None:
        return _source(frame, path, label, node)
    leaves = outside(path, _method(path, args), _address(args), _statement(args))
    if leaves is not None:
        return _outside(frame, fn, path, leaves, args, node)
    if retries(path, args):
        frame.world.retriers.append((frame.module, node, shown(path)))
    if FOREIGN.match(path):
        frame.emit(Event("foreign", shown(path), node, frame.module))
    known = _KNOWN.get(path)
    if known is not None:
        return known(frame, args, node)
    if may_write(path):
        inputs = mixed(fn, *args.values)
        frame.emit(Event("maybe", shown(path), node, frame.module, inputs))
        answer = frame.taint("answer", shown(path), node)
        return replace(join(mixed(fn, *args.values), answer), ref=extern(f"{path}()"))
    return _unknown(frame, fn, path, args, node)


def shown(path: str) -> str:
    """A path as a person would write it."""
    path = path.replace("semel.ctx.", "ctx.").replace("builtins.made.", "").lstrip(".")
    return path.removeprefix("builtins.")


def _source(frame: Frame, path: str, label: str, node: ast.AST) -> Value:
    written = ast.unparse(node) if isinstance(node, ast.Call) else f"{path}()"
    source = written if len(written) <= 40 else f"{shown(path)}()"
    frame.emit(Event("source", source, node, frame.module, label=label))
    return replace(frame.taint(label, source, node), ref=extern(f"{path}()"))


def _unknown(frame: Frame, fn: Value, path: str, args: Args, node: ast.AST) -> Value:
    found = mixed(fn, *args.values)
    if path.startswith(("builtins.", ".")):
        return found
    if path in ("random.Random", "numpy.random.default_rng") and args.values:
        # With a seed it throws what it threw before.
        return replace(found, ref=Extern(f"{path}.seeded"))
    return replace(found, ref=extern(f"{path}()"))


def _outside(
    frame: Frame, fn: Value, path: str, leaves: Outside, args: Args, node: ast.AST
) -> Value:
    what = shown(path)
    inputs = mixed(fn, *args.values)
    event = Event(
        leaves.kind,
        what,
        node,
        frame.module,
        inputs,
        family=leaves.family,
        passes_key=leaves.passes_key,
        address=_url(args) if leaves.family == "http" else "",
    )
    frame.emit(event)
    _check_idempotency(frame, fn, args)
    if leaves.kind == "model":
        return replace(frame.taint("model", f"{what}()", node), ref=extern(f"{path}()"))
    answer = frame.taint("answer", what, node)
    if leaves.kind == "read":
        answer = join(answer, frame.taint("looked", what, node))
    return replace(answer, ref=extern(f"{path}()"))


def _check_idempotency(frame: Frame, fn: Value, args: Args) -> None:
    """A key that a request carries must be as stable as the intent's."""
    from ._sinks import check_passed_key

    for value, node in (*args.positional, *args.keyword.values()):
        check_passed_key(frame, value, node)
    for name, (value, node) in args.keyword.items():
        if "idempotency" in name.lower():
            check_passed_key(frame, Value(items={"idempotency-key": value}), node)


def _method(path: str, args: Args) -> str:
    """The method of a request, where it is said."""
    for value in (args.named("method"), args.named("", 0)):
        if value is not None and isinstance(value.const, str) and value.const.isalpha():
            return value.const
    if path == "urllib.request.urlopen":
        request = args.named("url", 0)
        sends = args.named("data", 1) is not None
        said = (request.items or {}).get("method") if request is not None else None
        if said is not None and isinstance(said.const, str):
            return said.const
        sends = sends or (request is not None and "data" in (request.items or {}))
        return "POST" if sends else "GET"
    return ""


def _address(args: Args) -> str:
    """What is literal of a request's address."""
    found: list[str] = []
    for value, node in (*args.positional[:2], *args.keyword.values()):
        if isinstance(value.const, str):
            found.append(value.const)
        if isinstance(node, (ast.JoinedStr, ast.BinOp)):
            parts = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
            found += [part.value for part in parts if isinstance(part.value, str)]
    return " ".join(found)


def _url(args: Args) -> str:
    """The address of a request, with `{}` for what is not literal."""
    for value, node in (*args.positional[:2], *args.keyword.values()):
        text = value.const if isinstance(value.const, str) else ""
        if not text and isinstance(node, ast.JoinedStr):
            literal = (
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
            text = "".join(str(part) for part in literal)
        if "/" in text:
            return text
    return ""


def _statement(args: Args) -> str:
    """The statement of a query: its text, or what built it."""
    if not args.positional:
        return ""
    value, node = args.positional[0]
    if isinstance(value.const, str):
        return value.const
    if isinstance(value.ref, Extern) and is_built(value.ref.path):
        return value.ref.path
    texts = [one for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return next((one.value for one in texts if isinstance(one.value, str)), "")


def environment(frame: Frame, name: Value, node: ast.AST) -> Value:
    """A variable of the environment."""
    if is_worker_variable(name.const):
        return frame.taint("worker", f"the variable {name.const}", node)
    return NOTHING


def _variable(frame: Frame, args: Args, node: ast.AST) -> Value:
    name = args.named("key", 0) or NOTHING
    return join(environment(frame, name, node), args.named("default", 1) or NOTHING)


def _sorted(frame: Frame, args: Args, node: ast.AST) -> Value:
    found = mixed(*args.values)
    kept = frozenset(taint for taint in found.taints if taint.label != "unordered")
    return Value(kept, shape="list")


def _set(frame: Frame, args: Args, node: ast.AST) -> Value:
    made = frame.taint("unordered", "a set, which has no order", node)
    return replace(mixed(*args.values, made), shape="set")


def _listing(frame: Frame, args: Args, node: ast.AST) -> Value:
    return mixed(*args.values, frame.taint("unordered", "a listing, which has no order", node))


def _text(frame: Frame, args: Args, node: ast.AST) -> Value:
    from ._expressions import as_text

    found = mixed(*args.values)
    if len(args.positional) == 1:
        value = args.positional[0][0]
        how = (
            node.func.id
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            else "str"
        )
        found = join(found, as_text(frame, value, node, how))
        return replace(found, const=value.const if isinstance(value.const, str) else found.const)
    return found


def _dumps(frame: Frame, args: Args, node: ast.AST) -> Value:
    found = mixed(*args.values)
    sorts = args.named("sort_keys")
    if sorts is not None and sorts.const is True:
        return normalised(found)
    if not found.taints:
        return found
    return join(found, frame.taint("payload", "json.dumps() of a whole payload", node))


def normalised(value: Value) -> Value:
    """The same, in one form for all ways to write it."""
    return Value(
        frozenset(
            replace(taint, is_stable=True) if taint.label == "field" else taint
            for taint in value.taints
        )
    )


def _partial(frame: Frame, args: Args, node: ast.AST) -> Value:
    if not args.positional:
        return NOTHING
    fn, *rest = (value for value, _ in args.positional)
    words = {name: value for name, (value, _) in args.keyword.items()}
    return Value(ref=Partial(fn, tuple(rest), words))


def _field(frame: Frame, args: Args, node: ast.AST) -> Value:
    from ._calls import call

    factory = args.named("default_factory") or args.named("factory")
    if factory is not None:
        return call(frame, factory, Args(), node).through("default_factory")
    return args.named("default", 0) or NOTHING


def _mapped(frame: Frame, args: Args, node: ast.AST) -> Value:
    from ._calls import call
    from ._statements import element_of

    if not args.positional:
        return NOTHING
    fn, *lists = args.positional
    each = [(element_of(value), where) for value, where in lists]
    found = call(frame, fn[0], Args(each), node)
    order = [Value(frozenset(value.labelled("unordered"))) for value, _ in lists]
    return replace(mixed(found, *order), shape="list")


def _next(frame: Frame, args: Args, node: ast.AST) -> Value:
    found = mixed(*args.values)
    source = args.positional[0][0].ref if args.positional else None
    if isinstance(source, Extern) and source.path == "itertools.count()":
        found = join(found, frame.taint("memory", "a counter in this process", node))
    return found


def _gathered(frame: Frame, args: Args, node: ast.AST) -> Value:
    values = [value for value, _ in args.positional]
    if args.rest is not None:
        return replace(mixed(*values, args.rest[0]), shape="list")
    return Value(items={str(place): one for place, one in enumerate(values)}, shape="list")


def _kept_list(frame: Frame, args: Args, node: ast.AST) -> Value:
    if len(args.positional) == 1 and args.positional[0][0].items is not None:
        value = args.positional[0][0]
        return replace(value, ref=None, shape="list")
    return replace(mixed(*args.values), shape="list")


def _dict(frame: Frame, args: Args, node: ast.AST) -> Value:
    items = {name: value for name, (value, _) in args.keyword.items()}
    first = args.named("", 0)
    loose = mixed(*[value for value, _ in args.positional])
    if first is not None and first.items is not None:
        items, loose = {**first.items, **items}, Value(first.taints)
    return Value(loose.taints, items=items, shape="dict")


def _length(frame: Frame, args: Args, node: ast.AST) -> Value:
    found = mixed(*args.values)
    return Value(frozenset(one for one in found.taints if one.label not in ("unordered", "field")))


def _attribute(frame: Frame, args: Args, node: ast.AST) -> Value:
    from ._objects import member

    if len(args.positional) >= 2 and isinstance(args.positional[1][0].const, str):
        found = member(frame, args.positional[0][0], args.positional[1][0].const, node)
        return join(found, *[value for value, _ in args.positional[2:]])
    return mixed(*args.values)


def _nothing(frame: Frame, args: Args, node: ast.AST) -> Value:
    return NOTHING


def _truth(frame: Frame, args: Args, node: ast.AST) -> Value:
    return replace(mixed(*args.values), shape="bool")


def _timedelta(frame: Frame, args: Args, node: ast.AST) -> Value:
    from datetime import timedelta

    words = {name: value.const for name, (value, _) in args.keyword.items()}
    places = [value.const for value, _ in args.positional]
    if any(isinstance(one, Unknown) for one in (*places, *words.values())):
        return NOTHING
    try:
        return Value(const=timedelta(*places, **words))
    except (TypeError, ValueError, OverflowError):
        return NOTHING


def _request(frame: Frame, args: Args, node: ast.AST) -> Value:
    """`urllib.request.Request`, with what `urlopen` asks for."""
    items = {name: value for name, (value, _) in args.keyword.items()}
    if len(args.positional) > 1:
        items["data"] = args.positional[1][0]
    return Value(mixed(*args.values).taints, ref=Extern("urllib.request.Request()"), items=items)


_KNOWN: dict[str, Callable[[Frame, Args, ast.AST], Value]] = {
    "os.getenv": _variable,
    "os.environ.get": _variable,
    "builtins.sorted": _sorted,
    "builtins.min": _sorted,
    "builtins.max": _sorted,
    "builtins.sum": _sorted,
    "builtins.set": _set,
    "builtins.frozenset": _set,
    "os.listdir": _listing,
    "os.scandir": _listing,
    "glob.glob": _listing,
    "builtins.str": _text,
    "builtins.repr": _text,
    "json.dumps": _dumps,
    "ujson.dumps": _dumps,
    "orjson.dumps": _dumps,
    "functools.partial": _partial,
    "builtins.map": _mapped,
    "builtins.filter": _mapped,
    "builtins.next": _next,
    "builtins.list": _kept_list,
    "builtins.tuple": _kept_list,
    "builtins.dict": _dict,
    "builtins.len": _length,
    "builtins.getattr": _attribute,
    "builtins.bool": _truth,
    "builtins.any": _truth,
    "builtins.all": _truth,
    "asyncio.gather": _gathered,
    "datetime.timedelta": _timedelta,
    "urllib.request.Request": _request,
    **{f"builtins.{name}": _nothing for name in _PURE},
    **dict.fromkeys(_FACTORIES, _field),
}
