"""Rules about what decorators say: keys, retries, windows, contracts."""

from __future__ import annotations

import re
from datetime import timedelta

from ._declared import Declared, contract_of
from ._frame import Frame
from ._sinks import better_key, check_key, declared_fields, declared_parts
from ._sources import ATTEMPT_NAMES, BROAD, ONCE_EACH, WORKER_NAMES, is_free_text, is_specific
from ._values import Extern, Func, Unknown, Value, mixed

_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)\s*\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DEFAULT_TOTAL = 600.0
_DEFAULT_RETENTION = 86400.0
_DEFAULT_DEADLINE = 60.0
_LONGEST_SETTLE = 120.0


def check_declaration(frame: Frame, function: Func) -> None:
    """Looks at everything that is said above a function."""
    declared = function.declared
    assert declared is not None
    if declared.kind in ("effect", "transaction"):
        _check_key(frame, function, declared)
    if declared.kind in ("effect", "function", "model"):
        _check_retries(frame, function, declared)
    if declared.kind == "effect":
        _check_window(frame, function, declared)
        _check_contract(frame, function, declared)
        _check_tool(frame, function, declared)


def _check_key(frame: Frame, function: Func, declared: Declared) -> None:
    option = declared.options.get("key")
    if option is None:
        return
    better = better_key(function)
    for name in ("key", "downstream_key"):
        said = declared.options.get(name)
        if said is None:
            continue
        what = f"the {name.replace('_', ' ')} of {declared.action}"
        whole = mixed(*[part.value for part in declared_parts(frame, function, name)])
        check_key(frame, whole, said.node, what, action=declared.action, better=better)
    fields = declared_fields(frame, function)
    _check_names(frame, function, declared, fields)
    _check_breadth(frame, function, declared, fields)


def _last(field: str) -> str:
    return field.rpartition(".")[2]


def _check_names(frame: Frame, function: Func, declared: Declared, fields: list[str]) -> None:
    """What the names of the places alone say."""
    node = declared.options["key"].node
    better = better_key(function)
    what = f"the key of {declared.action}"
    parts = declared_parts(frame, function)
    cleaned = {
        taint.source for part in parts for taint in part.value.labelled("field") if taint.is_stable
    }
    for field in fields:
        name = _last(field)
        code, reason = "", ""
        if name in ATTEMPT_NAMES:
            code, reason = "SML003", f"{what} counts attempts: {field}"
        elif name in WORKER_NAMES:
            code, reason = "SML004", f"{what} names the process: {field}"
        elif is_free_text(name) and field not in cleaned:
            code = "SML010"
            reason = f"{what} has somebody's wording in it, {field}: a space more is another key"
        if code:
            frame.world.report(
                code, function.module, node, reason, better=better, action=declared.action
            )


def _check_breadth(frame: Frame, function: Func, declared: Declared, fields: list[str]) -> None:
    option = declared.options["key"]
    what = f"the key of {declared.action}"
    source = option.value
    better = better_key(function)
    is_known = (
        not isinstance(source.const, Unknown)
        or source.items is not None
        or isinstance(source.ref, Func)
    )
    if not is_known:
        return
    if not fields:
        value = mixed(*[part.value for part in declared_parts(frame, function)])
        if not value.everything and _is_constant(function, source):
            reason = f"{what} is the same for every call: the second wish gets the first receipt"
            frame.world.report(
                "SML009",
                function.module,
                option.node,
                reason,
                better=better,
                action=declared.action,
            )
        return
    names = [_last(field) for field in fields]
    if not all(name in BROAD for name in names):
        return
    once = ONCE_EACH.search(f"{declared.action} {function.name}")
    has_event = any(is_specific(one.arg) for one in function.parameters)
    if once and not has_event:
        return
    listed = ", ".join(names)
    reason = f"{what} is {listed} alone: the next wish of the same one gets the first receipt"
    frame.world.report(
        "SML009", function.module, option.node, reason, better=better, action=declared.action
    )


def _is_constant(function: Func, source: Value) -> bool:
    """Whether a key without any place is known to have none."""
    if isinstance(source.ref, Func):
        body = getattr(source.ref.node, "body", None)
        return type(body).__name__ == "Constant"
    return not isinstance(source.const, Unknown)


def _retry(declared: Declared) -> Value | None:
    option = declared.options.get("retries")
    return None if option is None else option.value


def _check_retries(frame: Frame, function: Func, declared: Declared) -> None:
    value = _retry(declared)
    if value is None:
        return
    attempts = (value.items or {}).get("attempts") or (value.items or {}).get("0")
    is_off = value.const == 0 and type(value.const) is int
    if isinstance(value.ref, Extern) and value.ref.path == "semel.Retry()":
        is_off = attempts is not None and attempts.const == 1
    if is_off:
        reason = (
            f"{declared.action} is never tried again: a passing trouble becomes a person's work,"
            " though a repeat would be safe"
        )
        node = declared.options["retries"].node
        frame.world.report("SML020", function.module, node, reason, action=declared.action)


def seconds(value: object) -> float | None:
    """A literal duration in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.match(value) if isinstance(value, str) else None
    return None if match is None else int(match[1]) * _UNITS[match[2]]


def _total(declared: Declared) -> float | None:
    value = _retry(declared)
    if value is None or not isinstance(value.ref, Extern):
        return _DEFAULT_TOTAL
    total = (value.items or {}).get("total") or (value.items or {}).get("3")
    return _DEFAULT_TOTAL if total is None else seconds(total.const)


def _check_window(frame: Frame, function: Func, declared: Declared) -> None:
    """As the ledger itself judges it when the effect is declared, but before anything runs."""
    total = _total(declared)
    windows = _windows(declared)
    if total is None or not windows:
        return
    deadline = seconds(declared.literal("deadline")) or _DEFAULT_DEADLINE
    least = min(window for _, _, window in windows)
    settle = seconds(declared.literal("settle_window")) or min(_LONGEST_SETTLE, least / 4)
    for option, what, window in windows:
        if total + deadline + settle > window:
            reason = (
                f"{declared.action} is retried for {_shown(total)}, with {_shown(deadline)} for"
                f" each try and {_shown(settle)} to settle, and {what} for {_shown(window)}: a late"
                " retry would be taken for a new wish"
            )
            better = f"Retry(total=…) well below {_shown(window)}"
            node = declared.options["retries" if "retries" in declared.options else option].node
            frame.world.report(
                "SML021", function.module, node, reason, better=better, action=declared.action
            )
            return


def _windows(declared: Declared) -> list[tuple[str, str, float]]:
    """How long a repeat is known: the option that says so, in words, in seconds."""
    found: list[tuple[str, str, float]] = []
    if contract_of(declared) == "native_key":
        items = declared.options["contract"].value.items or {}
        said = items.get("retention") or items.get("0")
        kept = _DEFAULT_RETENTION if said is None else seconds(said.const)
        if kept is not None:
            found.append(("contract", "the destination keeps its keys", kept))
    replay = seconds(declared.literal("replay_window"))
    if replay is not None:
        found.append(("replay_window", "its receipt is kept", replay))
    return found


def _shown(span: float) -> str:
    for unit in ("d", "h", "m"):
        if span >= _UNITS[unit] and span % _UNITS[unit] == 0:
            return f"{int(span // _UNITS[unit])}{unit}"
    return f"{span:g}s"


def _check_contract(frame: Frame, function: Func, declared: Declared) -> None:
    if contract_of(declared) is None:
        reason = (
            f"{declared.action} declares no contract, so it is at_most_once: a cut attempt waits"
            " for a person"
        )
        frame.world.report("SML022", function.module, declared.node, reason, action=declared.action)


def _check_tool(frame: Frame, function: Func, declared: Declared) -> None:
    option = declared.options.get("fingerprint")
    if declared.is_tool and (option is None or option.value.const is None):
        reason = f"a model fills in the arguments of {declared.action}, in other words each time"
        names = [one.partition(".")[0] for one in declared_fields(frame, function)]
        listed = ", ".join(f'"{one}"' for one in dict.fromkeys(names))
        frame.world.report(
            "SML024",
            function.module,
            declared.node,
            reason,
            better=f"declare fingerprint=[{listed}]",
            action=declared.action,
        )
