"""Members of values: of modules, classes, objects and things outside."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._frame import Event, Frame, evaluate
from ._imports import ready
from ._sources import ATTEMPT_NAMES, READ, WORKER_NAMES
from ._values import (
    NOTHING,
    Class,
    Extern,
    Func,
    Instance,
    Package,
    Scope,
    Taint,
    Value,
    join,
    mixed,
)

# Classes of Semel whose objects stand for themselves, however they were got.
_ALIASES = {
    "semel.WorkflowContext()": "semel.ctx",
    "semel.StepContext()": "semel.ctx",
    "semel.AsyncSemel()": "semel.Semel()",
    "semel.Intent()": "semel.intent()",
    "semel.Semel().draft()": "semel.Semel()",
}
_DEEPEST_BASE = 8
#: Members of answers that say only whether it went well.
_TRUTHS = frozenset(["ok", "is_success", "is_error", "success", "is_redirect"])


def extern(path: str) -> Extern:
    """A thing outside, by the one name that it has here."""
    return Extern(_ALIASES.get(path, path))


def member(frame: Frame, value: Value, name: str, node: ast.AST) -> Value:
    """What `value.name` is."""
    ref = value.ref
    if isinstance(ref, Extern):
        return _outside_member(frame, value, ref.path, name, node)
    if isinstance(ref, Package):
        return _module_member(frame, ref, name)
    if isinstance(ref, Class):
        return _class_member(frame, ref, name, node)
    if value.items is not None and name in value.items:
        return value.items[name]
    if isinstance(ref, Instance):
        found = _object_member(frame, value, ref, name)
        if found is not None:
            return found
    if isinstance(ref, Func) and name in ("function", "__wrapped__", "fn"):
        # Behind the decorator: the bare function, without its ledger.
        is_effect = ref.declared is not None and ref.declared.sends
        return replace(value, ref=replace(ref, is_bare=is_effect))
    written = name
    if name in ATTEMPT_NAMES and not READ.match(name) and isinstance(node, ast.expr):
        written = ast.unparse(node)  # `retries` alone may be anything; `request.retries` is not
    return _labelled(frame, _extended(value, name), written, node)


def _outside_member(frame: Frame, value: Value, base: str, name: str, node: ast.AST) -> Value:
    path = f"{base}.{name}"
    shape = "bool" if name in _TRUTHS else ""
    taints = value.taints if base != "semel.intent()" else frozenset[Taint]()
    found = Value(taints, extern(path), shape=shape)
    if path == "semel.intent().downstream_key":
        frame.emit(Event("key", path, node, frame.module))
        return frame.taint("downstream", path, node)
    return _labelled(frame, found, path, node)


def _labelled(frame: Frame, value: Value, path: str, node: ast.AST) -> Value:
    """Adds what the name itself says of the value."""
    if READ.match(path):
        shown = path.replace("semel.ctx", "ctx").replace("semel.intent()", "intent()")
        return join(value, frame.taint("attempt", shown, node))
    return value


def _extended(value: Value, name: str) -> Value:
    """A member of a value of which only the origin is known."""
    if value.items is not None and not value.taints:
        return NOTHING
    taints = frozenset(
        replace(taint, source=f"{taint.source}.{name}") if taint.label == "field" else taint
        for taint in value.everything
        if taint.label != "unordered"
    )
    return Value(taints) if taints else NOTHING


def _module_member(frame: Frame, ref: Package, name: str) -> Value:
    ready(frame.world, ref.module)
    found = ref.module.scope.names.get(name)
    if found is not None:
        return remembered(frame, ref.module.memory, name, found)
    folder = ref.module.path.parent
    if ref.module.path.name == "__init__.py":
        inner = frame.world.project.imported(ref.module, f"{folder.name}.{name}")
        if inner is not None:
            return Value(ref=Package(inner))
    return NOTHING


def remembered(frame: Frame, memory: frozenset[str], name: str, value: Value) -> Value:
    """A name that functions change: its value is that of this process alone."""
    if name not in memory:
        return value
    node = ast.Constant(name, lineno=1)
    taint = frame.taint("memory", f"`{name}` in the memory of this process", node)
    return replace(value, taints=value.taints | taint.taints, const=NOTHING.const)


def _class_member(frame: Frame, kind: Class, name: str, node: ast.AST) -> Value:
    found = in_class(frame, kind, name)
    if found is None:
        # `Model.model_validate(…)`: something of the class, made of its arguments.
        return Value(ref=Extern(f"builtins.made.{name}"))
    return remembered(frame, kind.module.memory, f"{kind.node.name}.{name}", found)


def in_class(frame: Frame, kind: Class, name: str, depth: int = 0) -> Value | None:
    """A member of a class or of those it is made of."""
    found = kind.scope.names.get(name)
    if found is not None or depth > _DEEPEST_BASE:
        return found
    for base in bases(frame, kind):
        found = in_class(frame, base, name, depth + 1)
        if found is not None:
            return found
    return None


def bases(frame: Frame, kind: Class) -> list[Class]:
    """The classes of the project that a class is made of."""
    around = Frame(frame.world, kind.module, kind.scope, "quiet")
    found = [evaluate(around, base).ref for base in kind.node.bases]
    return [one for one in found if isinstance(one, Class)]


def _object_member(frame: Frame, value: Value, ref: Instance, name: str) -> Value | None:
    found = in_class(frame, ref.kind, name)
    if found is None:
        return None
    if isinstance(found.ref, Func):
        bound = replace(found, ref=replace(found.ref, owner=value))
        if _is_property(found.ref):
            from ._calls import call_function
            from ._frame import Args

            assert isinstance(bound.ref, Func)
            return call_function(frame, bound.ref, Args(), ref.kind.node)
        return bound
    # A field: what came with the object, or else its default.
    own = _extended(Value(value.taints), name)
    return join(own, found) if own is not NOTHING or found.everything else found


def _is_property(function: Func) -> bool:
    decorators = getattr(function.node, "decorator_list", [])
    return any("property" in ast.unparse(one) for one in decorators)


def set_member(whole: Value, name: str | None, value: Value) -> Value:
    """A value after one of its members was set."""
    if whole.items is None and isinstance(whole.ref, Instance):
        whole = replace(whole, items={})
    if name is None or whole.items is None:
        taints = whole.taints | mixed(value).taints
        return replace(whole, taints=taints, const=NOTHING.const)
    return replace(whole, items={**whole.items, name: value.through(name)}, const=NOTHING.const)


def parameter(frame: Frame, argument: ast.arg, scope: Scope) -> Value:
    """What is known of a parameter whose caller is not known."""
    value = frame.taint("field", argument.arg, argument)
    if argument.arg in ATTEMPT_NAMES:
        value = join(value, frame.taint("attempt", f"the parameter {argument.arg}", argument))
    if argument.arg in WORKER_NAMES:
        value = join(value, frame.taint("worker", f"the parameter {argument.arg}", argument))
    if argument.annotation is None:
        return value
    return _annotated(frame, argument.annotation, scope, value)


def _annotated(frame: Frame, annotation: ast.expr, scope: Scope, value: Value) -> Value:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return value
    if isinstance(annotation, ast.Subscript):
        name = ast.unparse(annotation.value).rpartition(".")[2].lower()
        if name == "annotated" and isinstance(annotation.slice, ast.Tuple):
            return _annotated(frame, annotation.slice.elts[0], scope, value)
        return replace(value, shape=_shape(name))
    quiet = Frame(frame.world, frame.module, Scope({}, scope), "quiet")
    ref = evaluate(quiet, annotation).ref
    if isinstance(ref, Class):
        return replace(value, ref=Instance(ref))
    if isinstance(ref, Extern):
        name = ref.path.rpartition(".")[2]
        if ref.path.startswith("builtins."):
            return replace(value, shape=_shape(name))
        if name[:1].isupper():
            return replace(value, ref=extern(f"{ref.path}()"))
    return value


def _shape(name: str) -> str:
    if name in ("dict", "mapping", "mutablemapping", "any"):
        return "dict" if name != "any" else ""
    return name if name in ("set", "frozenset", "list", "bool", "tuple") else ""
