"""What expressions are made of."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace

from ._calls import call_node
from ._frame import Frame, evaluate, expression
from ._objects import member, remembered
from ._statements import assign, element_of
from ._values import (
    NOTHING,
    UNKNOWN,
    Class,
    Extern,
    Func,
    Instance,
    Scope,
    Unknown,
    Value,
    join,
    mixed,
)

_BUILTINS = frozenset(dir(builtins))
#: Classes whose objects are one word, and not a whole payload.
_SCALARS = frozenset(["Enum", "StrEnum", "IntEnum", "Flag", "str", "int", "UUID", "date"])


@expression(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Value:
    return Value(const=node.value, shape="bool" if isinstance(node.value, bool) else "")


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Value:
    found = frame.scope.find(node.id)
    if found is None:
        return Value(ref=Extern(f"builtins.{node.id}")) if node.id in _BUILTINS else NOTHING
    if node.id in frame.module.memory and found is frame.module.scope.names.get(node.id):
        return remembered(frame, frame.module.memory, node.id, found)
    return found


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    return member(frame, evaluate(frame, node.value), node.attr, node)


@expression(ast.Await, ast.Starred)
def _same(frame: Frame, node: ast.Await | ast.Starred) -> Value:
    return evaluate(frame, node.value)


@expression(ast.Yield, ast.YieldFrom)
def _yield(frame: Frame, node: ast.Yield | ast.YieldFrom) -> Value:
    if node.value is not None:
        frame.returns.append(evaluate(frame, node.value))
    return NOTHING


@expression(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Value:
    return call_node(frame, node)


@expression(ast.NamedExpr)
def _walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    assign(frame, node.target, value)
    return value


@expression(ast.Lambda)
def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    known = frame.world.functions.get(node)
    if known is not None and known.scope is frame.scope:
        return Value(ref=known)
    found = Func(node, frame.module, frame.scope)
    frame.world.functions[node] = found
    return Value(ref=found)


@expression(ast.IfExp)
def _conditional(frame: Frame, node: ast.IfExp) -> Value:
    test = evaluate(frame, node.test)
    either = join(evaluate(frame, node.body), evaluate(frame, node.orelse))
    # Which of both it is depends on the test: on a model's word, or on chance.
    swayed = frozenset(test.labelled("model", "chance", "time", "attempt", "worker"))
    return replace(either, taints=either.taints | swayed) if swayed else either


@expression(ast.BoolOp)
def _either(frame: Frame, node: ast.BoolOp) -> Value:
    found = [evaluate(frame, value) for value in node.values]
    return join(*[replace(value, const=UNKNOWN) for value in found])


@expression(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Value:
    found = mixed(evaluate(frame, node.left), *[evaluate(frame, one) for one in node.comparators])
    if all(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops):
        found = Value(frozenset(found.labelled("looked", "answer")))
    return replace(found, shape="bool")


@expression(ast.UnaryOp)
def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    found = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return replace(mixed(found), shape="bool")
    if isinstance(node.op, ast.USub) and isinstance(found.const, (int, float)):
        return replace(found, const=-found.const)
    return found


@expression(ast.BinOp)
def _binary(frame: Frame, node: ast.BinOp) -> Value:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    found = mixed(left, right)
    if frame.approved.yes and frame.context == "body" and "version" in ast.unparse(node.left):
        counted = frame.taint("approval", f"{ast.unparse(node)}, after the approval", node)
        found = join(found, counted)
    if left.shape == right.shape and left.shape in ("set", "list", "dict"):
        found = replace(found, shape=left.shape)
    if isinstance(left.const, Unknown) or isinstance(right.const, Unknown):
        return found
    try:
        # Only what cannot take long: sums of texts and products of numbers.
        if isinstance(node.op, ast.Add):
            return replace(found, const=left.const + right.const)
        numbers = isinstance(left.const, (int, float)) and isinstance(right.const, (int, float))
        if isinstance(node.op, ast.Mult) and numbers:
            return replace(found, const=left.const * right.const)
    except Exception:
        return found
    return found


@expression(ast.JoinedStr)
def _f_string(frame: Frame, node: ast.JoinedStr) -> Value:
    found: list[Value] = []
    text: str | None = ""
    for part in node.values:
        value = evaluate(frame, part)
        found.append(value)
        known = isinstance(value.const, (str, int)) and text is not None
        text = f"{text}{value.const}" if known else None
    return replace(mixed(*found), const=UNKNOWN if text is None else text)


@expression(ast.FormattedValue)
def _formatted(frame: Frame, node: ast.FormattedValue) -> Value:
    value = evaluate(frame, node.value)
    if isinstance(value.ref, Instance) or node.conversion == ord("r"):
        return join(mixed(value), as_text(frame, value, node, "repr"))
    return replace(mixed(value), const=value.const)


@expression(ast.Tuple, ast.List, ast.Set)
def _sequence(frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Value:
    values = [evaluate(frame, one) for one in node.elts]
    if any(isinstance(one, ast.Starred) for one in node.elts):
        found = Value(mixed(*values).taints, shape="list")
    else:
        items = {str(place): value for place, value in enumerate(values)}
        found = Value(items=items, shape="list", const=_together(values))
    if isinstance(node, ast.Set):
        found = join(found, frame.taint("unordered", "a set, which has no order", node))
        return replace(found, shape="set")
    return found


def _together(values: list[Value]) -> object:
    if any(isinstance(value.const, Unknown) for value in values):
        return UNKNOWN
    return [value.const for value in values]


@expression(ast.Dict)
def _dict(frame: Frame, node: ast.Dict) -> Value:
    items: dict[str, Value] = {}
    loose: list[Value] = []
    for key, one in zip(node.keys, node.values, strict=True):
        value = evaluate(frame, one)
        if key is None:
            items.update(value.items or {})
            loose.append(Value(value.taints))
            continue
        name = evaluate(frame, key)
        if isinstance(name.const, Unknown):
            loose.extend([name, value])
        else:
            items[str(name.const)] = value
    return Value(mixed(*loose).taints, items=items, shape="dict")


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    whole, place = evaluate(frame, node.value), evaluate(frame, node.slice)
    if isinstance(whole.ref, Extern) and whole.ref.path == "os.environ":
        from ._externs import environment

        return environment(frame, place, node)
    if isinstance(node.slice, ast.Slice):
        return replace(mixed(whole), shape=whole.shape)
    if whole.items is not None and not isinstance(place.const, Unknown):
        known = whole.items.get(str(place.const))
        if known is not None:
            return known
    if isinstance(place.const, str):
        found = member(frame, replace(whole, ref=None), place.const, node)
    elif isinstance(whole.ref, (Extern, Class)):
        return whole
    else:
        found = mixed(whole)
    return join(found, mixed(place)) if place.everything else found


@expression(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
def _comprehension(
    frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Value:
    outer = frame.scope
    frame.scope = Scope({}, outer)
    order: list[Value] = []
    frame.loops += 1
    for part in node.generators:
        source = evaluate(frame, part.iter)
        order.append(Value(frozenset(source.labelled("unordered"))))
        assign(frame, part.target, element_of(source))
        for test in part.ifs:
            evaluate(frame, test)
    if isinstance(node, ast.DictComp):
        found = mixed(evaluate(frame, node.key), evaluate(frame, node.value), *order)
    else:
        found = mixed(evaluate(frame, node.elt), *order)
    frame.loops -= 1
    frame.scope = outer
    if isinstance(node, ast.SetComp):
        found = join(found, frame.taint("unordered", "a set, which has no order", node))
        return replace(found, shape="set")
    return replace(found, shape="dict" if isinstance(node, ast.DictComp) else "list")


def as_text(frame: Frame, value: Value, node: ast.AST, how: str) -> Value:
    """A value written out by `str` or `repr`: whole payloads and addresses in memory are no
    names."""
    ref = value.ref
    if isinstance(ref, Instance):
        base = [ast.unparse(one) for one in ref.kind.node.bases]
        if any(one.rpartition(".")[2] in _SCALARS for one in base):
            return NOTHING
        is_data = bool(base) or bool(ref.kind.node.decorator_list)
        if not is_data and not {"__str__", "__repr__"} & set(ref.kind.scope.names):
            what = f"the address of a {ref.kind.node.name} in memory"
            return frame.taint("worker", what, node)
        if not {"__str__", "__repr__"} & set(ref.kind.scope.names):
            return frame.taint("payload", f"{how}() of a whole {ref.kind.node.name}", node)
    if value.shape == "dict" and (value.taints or value.items):
        return frame.taint("payload", f"{how}() of a whole dict", node)
    return NOTHING
