"""What an application declares, as plain data: conversion only, the rules over it are in Rust."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from ._contracts import Contract, optional_ms
from ._declare import Declared, Function
from ._effect import Effect
from ._ledger import App
from ._reach import Reach
from ._template import KeyMaker
from ._tools import Tool, Toolbox
from ._transaction import Transactional
from ._workflow import Workflow

FORMAT = 1
_CLIENTS = ("semel.httpx", "semel.requests", "semel.stripe")
_DEPTH_MAX = 3

Json = dict[str, Any]


def registry(module: ModuleType, path: Path) -> Json:
    """All that a module declares, and what its workflows use of other modules."""
    folder = path.resolve().parent
    found = list(vars(module).values())
    for one in list(found):
        if isinstance(one, type) and one.__module__ == module.__name__:
            found.extend(vars(one).values())
    declared: dict[int, Declared[..., Any]] = {}
    tools: set[int] = set()
    waiting = list(found)
    while waiting:
        one = waiting.pop()
        if isinstance(one, Tool):
            offered = cast(Tool[..., Any], one)
            tools.add(id(offered.declared.function))
            waiting.append(offered.declared)
        elif isinstance(one, Declared):
            step = cast(Declared[..., Any], one)
            if id(step.function) not in declared:
                declared[id(step.function)] = step
                waiting.extend(_uses(step, folder))
    declarations = [
        _declaration(one, folder, id(one.function) in tools) for one in declared.values()
    ]
    made: Json = {"format": FORMAT, "source": path.name, "declarations": declarations}
    store = _store(found)
    return made if store is None else {**made, "store": store}


def _store(found: Iterable[Any]) -> str | None:
    """The kind of store that the module itself names; its address stays where it is."""
    kinds = {one.named_url.partition(":")[0] for one in found if isinstance(one, App)}
    kind = kinds.pop() if len(kinds) == 1 else None
    return "postgres" if kind == "postgresql" else kind


def _uses(declared: Declared[..., Any], folder: Path) -> list[Declared[..., Any]]:
    """The steps and children that the code of a workflow names, and what takes an effect back."""
    if isinstance(declared, Effect):
        undo = declared.compensate_with
        return [] if undo is None else [undo]
    if not isinstance(declared, Workflow):
        return []
    used: list[Declared[..., Any]] = []
    for value in Reach(declared.function, folder).values:
        if isinstance(value, Toolbox):
            used.extend(one.declared for one in value)
        elif isinstance(value, Tool):
            used.append(cast(Tool[..., Any], value).declared)
        elif isinstance(value, Declared):
            used.append(cast(Declared[..., Any], value))
    for one in list(used):
        if isinstance(one, Effect) and one.compensate_with is not None:
            used.append(one.compensate_with)
    return used


def _declaration(one: Declared[..., Any], folder: Path, is_tool: bool) -> Json:
    doc = (inspect.getdoc(one.function) or "").strip()
    made: Json = {
        "language": "python",
        "kind": _kind(one),
        "name": str(getattr(one.function, "__name__", one.name)),
        "parameters": list(one.shape.names),
        **_place(one, folder),
    }
    if doc:
        made["intent"] = doc.splitlines()[0].strip()
    if is_tool:
        made["is_tool"] = True
    if isinstance(one, Effect):
        made |= _effect(one, folder)
    elif isinstance(one, Workflow):
        made["name"] = one.name
        made["flow"] = _flow(one, folder)
    elif isinstance(one, Function):
        made["name"] = one.name
        made["times"] = _tries(one)
    return made


def _kind(one: Declared[..., Any]) -> str:
    if isinstance(one, Transactional):
        return "transaction"
    if isinstance(one, Effect):
        return "effect"
    if isinstance(one, Function):
        return "model" if one.is_model else "function"
    return "workflow"


def _place(one: Declared[..., Any], folder: Path) -> Json:
    code = getattr(inspect.unwrap(one.function), "__code__", None)
    if code is None:
        return {}
    file = Path(code.co_filename).resolve()
    # Of what is not beside the application its name is enough: a path is of one machine.
    shown = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name
    return {"file": shown, "line": code.co_firstlineno}


def _tries(one: Effect[..., Any] | Function[..., Any]) -> Json:
    return {"attempts": one.again.attempts, "retry_total_ms": one.again.total_ms}


def _effect(one: Effect[..., Any], folder: Path) -> Json:
    times = {name: value for name, value in one.times.items() if value is not None}
    made: Json = {
        "action": one.action,
        "key": _key(one.key),
        "times": {**times, **_tries(one)},
        "key_passed_on": _passed_on(one, folder),
        "goes_on_in_doubt": one.goes_on,
    }
    if one.contract is not None:
        made["contract"] = _contract(one.contract)
    if one.counted is not None:
        made["fingerprint"] = one.counted
    if one.downstream_key is not None:
        made["downstream_key"] = one.downstream_key.text or "made by a function"
    if one.compensate_with is not None:
        made["undo"] = one.compensate_with.action
    if one.rate is not None:
        made["rate"] = {"count": one.rate[0], "per_ms": one.rate[1]}
    if one.approval is not None:
        expires = optional_ms(one.approval.expires)
        made["approval"] = {"expires_ms": expires, "four_eyes": one.approval.four_eyes}
    receipt = _receipt(one.shape.result.annotation)
    return made if receipt is None else {**made, "receipt": receipt}


def _contract(contract: Contract) -> Any:
    if contract.name == "native_key":
        return {"native_key": {"retention_ms": contract.retention_ms}}
    if contract.name == "probe":
        return {"probe": {"first": contract.look_first}}
    return contract.name


def _key(key: KeyMaker) -> Json:
    if key.function is not None:
        name = getattr(key.function, "__name__", "key")
        shown = "a lambda" if name == "<lambda>" else name
        return {"fields": sorted(key.names), "function": shown}
    parts: list[str] = []
    fields: set[str] = set()
    for template in key.templates:
        fields |= set(template.fields)
        parts.extend(template.shown_parts())
    return {"parts": parts, "fields": sorted(fields)}


def _receipt(annotation: Any) -> Json | None:
    if annotation is Any:
        return None
    name = getattr(annotation, "__name__", str(annotation))
    return {"name": name, "fields": _fields(annotation)}


def _fields(kind: Any) -> list[str]:
    """The members of a type that has any."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if typing.is_typeddict(kind):
        return list(kind.__annotations__)
    # Those of a Pydantic model, or of a named tuple.
    members: Iterable[str] = getattr(kind, "model_fields", getattr(kind, "_fields", ()))
    return list(members)


def _passed_on(one: Effect[..., Any], folder: Path) -> str:
    """Whether the code hands the downstream key on: it names it, or uses a client that does."""
    reach = Reach(one.function, folder)
    if reach.names & {"downstream_key", "is_downstream_key"}:
        return "yes"
    if any(_is_client(value, reach.names) for value in reach.values):
        return "yes"
    plain = (type, ModuleType, FunctionType, Declared, str, int, float, bool, type(None), Path)
    objects = [one for one in reach.values if not isinstance(one, plain) and not callable(one)]
    # What an object does, or a client that comes as a parameter, is not to be seen from here.
    hidden = bool(objects) or one.shape.is_method or "intent" in reach.names
    return "unknown" if hidden else "no"


def _is_client(value: Any, names: set[str]) -> bool:
    if isinstance(value, ModuleType):
        if value.__name__ in _CLIENTS:
            return True
        is_package = value.__name__ == "semel"
        return is_package and any(name.rpartition(".")[2] in names for name in _CLIENTS)
    return _has_ours(value, _DEPTH_MAX)


def _has_ours(value: Any, depth: int) -> bool:
    """Whether a client of somebody else's sends through one of ours."""
    if type(value).__module__ in _CLIENTS or getattr(value, "__module__", None) in _CLIENTS:
        return True
    if depth == 0 or isinstance(value, type) or not hasattr(value, "__dict__"):
        return False
    inside = cast(dict[str, Any], value.__dict__)
    return any(_has_ours(inner, depth - 1) for inner in inside.values())


def _flow(one: Workflow[..., Any], folder: Path) -> Json:
    used = _uses(one, folder)
    names = {
        step.action if isinstance(step, Effect) else step.name
        for step in used
        if not isinstance(step, Workflow)
    }
    children = {step.name for step in used if isinstance(step, Workflow)}
    flow: Json = {"steps": sorted(names), "children": sorted(children)}
    rule = one.concurrency
    if rule is not None:
        if rule.limit is not None:
            flow["limit"] = rule.limit
        if rule.key is not None:
            flow |= {"one_per": rule.key, "mode": rule.mode}
    return flow
