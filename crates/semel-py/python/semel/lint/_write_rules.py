"""Rules about what code does outside, and where."""

from __future__ import annotations

from ._after_rules import check_around_write
from ._declared import contract_of
from ._frame import Event, World
from ._roots import Root, excludes, place_of
from ._values import Taint, Unknown, Value
from ._writes import is_cache_read, is_cached, is_elsewhere

_UNPROTECTED = ("workflow", "function", "read")
_KNOWN_FAMILIES = ("http", "sdk", "sql")


def check_writes(world: World, root: Root) -> None:
    """Looks at everything that a function does outside."""
    raw = [one for one in root.events if one.kind == "write" and one.context != "quiet"]
    if root.kind == "model":
        raw = [one for one in raw if one.family != "http"]
    judged = _check_then_act(world, root, raw)
    judged |= _act_then_check(world, root, [one for one in raw if id(one) not in judged])
    if root.kind in (*_UNPROTECTED, "model"):
        for event in raw:
            if id(event) not in judged:
                _outside_effect(world, root, event)
    _bare_calls(world, root)
    if root.kind in _UNPROTECTED:
        _models(world, root)
    if root.kind == "workflow":
        _body(world, root)
    if root.kind == "effect" and not root.is_stub:
        _two_writes(world, root, raw)
        check_around_write(world, root, raw)
        _passes_key(world, root)
        _receipt(world, root, raw)


def _via(event: Event) -> str:
    return f", by way of {' and '.join(event.via)}" if event.via else ""


def _where(root: Root, event: Event) -> str:
    if root.kind == "workflow":
        return "a plain step" if event.context == "step" else "the body of a workflow"
    return {"function": "a @function", "read": "a tool that only reads", "model": "a @model"}[
        root.kind
    ]


def _outside_effect(world: World, root: Root, event: Event) -> None:
    module, node = place_of(world, event)
    reason = (
        f"{event.what} writes in {_where(root, event)}{_via(event)}: it may run again, and nothing"
        " remembers that it was done"
    )
    world.report("SML040", module, node, reason)


def _bare_calls(world: World, root: Root) -> None:
    for event in root.events:
        if event.kind == "bare":
            module, node = place_of(world, event)
            reason = f"the function of {event.what} is called past its ledger: every call sends"
            better = "call the effect itself, or a step of it"
            world.report("SML040", module, node, reason, better=better, action=event.what)


def _decides(world: World, event: Event) -> list[Taint]:
    """What was looked up and decided whether an event happens."""
    return [
        taint
        for branch, _ in event.path
        if branch in world.tests
        for taint in world.tests[branch].labelled("looked")
    ]


def _is_elsewhere(root: Root, looked: Taint, write: Event) -> bool:
    """Whether what was looked at is surely not what is made: a health, before an alert."""
    asked = [
        one.address
        for one in root.events
        if one.kind == "read" and one.what == looked.source and _is_at(one, looked)
    ]
    return bool(asked) and all(is_elsewhere(one, write.address) for one in asked)


def _is_at(event: Event, taint: Taint) -> bool:
    return (event.module.shown, getattr(event.node, "lineno", 1)) == (taint.file, taint.line)


def _check_then_act(world: World, root: Root, raw: list[Event]) -> set[int]:
    if root.kind == "effect":
        assert root.function.declared is not None
        if contract_of(root.function.declared) not in (None, "at_most_once"):
            return set()
    elif root.kind not in (*_UNPROTECTED, "plain") or not root.function.module.uses_semel:
        return set()
    judged: set[int] = set()
    for event in raw:
        looked = [one for one in _decides(world, event) if not _is_elsewhere(root, one, event)]
        if looked and is_cached(event.what) and all(is_cache_read(one.source) for one in looked):
            # Two that both miss it put the same value there.
            judged.add(id(event))
        elif looked:
            judged.add(id(event))
            module, node = place_of(world, event)
            reason = (
                f"{event.what} is sent because {looked[0].source} found nothing: two at once both"
                " find nothing, and a cut answer is not found either"
            )
            world.report("SML033", module, node, reason, action=root.action)
    return judged


def _act_then_check(world: World, root: Root, raw: list[Event]) -> set[int]:
    if root.kind not in (*_UNPROTECTED, "plain"):
        return set()
    judged: set[int] = set()
    for event in raw:
        check = next((one for one in _after(root, event) if _checks(world, one, event)), None)
        if check is not None:
            judged.add(id(event))
            module, node = place_of(world, event)
            line = getattr(check.node, "lineno", 0)
            reason = (
                f"{event.what} is sent first, and only line {line} asks whether it was done"
                " before: a crash between both does it twice"
            )
            world.report("SML034", module, node, reason)
    return judged


def _after(root: Root, event: Event) -> list[Event]:
    place = next(place for place, one in enumerate(root.events) if one is event)
    return [one for one in root.events[place + 1 :] if not excludes(event, one)]


def _checks(world: World, check: Event, write: Event) -> bool:
    """Whether this asks, about the same thing, whether it was done."""
    if check.kind not in ("effect", "find", "read"):
        return False
    about = {taint.source for taint in check.inputs.labelled("field")}
    if not about & {taint.source for taint in write.inputs.labelled("field")}:
        return False
    if check.kind != "read":
        return True
    line = getattr(check.node, "lineno", 0)
    tests = (taint for value in world.tests.values() for taint in value.labelled("looked"))
    return any(taint.line == line and taint.file == check.module.shown for taint in tests)


def _models(world: World, root: Root) -> None:
    for event in root.events:
        if event.kind == "model" and event.context != "quiet":
            module, node = place_of(world, event)
            reason = (
                f"{event.what} asks a model in {_where(root, event)}{_via(event)}: a retry asks,"
                " and pays, again and gets other words"
            )
            world.report("SML042", module, node, reason)


def _body(world: World, root: Root) -> None:
    for event in root.events:
        if event.context != "body":
            continue
        module, node = place_of(world, event)
        if event.kind == "effect" and not event.is_stepped:
            reason = f"{event.what} is called in the body of a workflow, and not as a step of it"
            world.report("SML041", module, node, reason, action=event.what)
        elif event.kind in ("foreign", "read"):
            reason = (
                f"{event.what} waits in the body of a workflow{_via(event)}: that is run again from"
                " its start, and may wait for what ctx offers alone"
            )
            world.report("SML043", module, node, reason)
        elif event.kind == "source":
            line = getattr(event.node, "lineno", 0)
            blamed = {(event.module.shown, line, label) for label in (event.label, "approval")}
            if not blamed & world.blamed:
                reason = f"{event.what} gives another value in every replay of this body"
                world.report("SML044", module, node, reason + _via(event))


def _two_writes(world: World, root: Root, raw: list[Event]) -> None:
    for place, event in enumerate(raw):
        module, node = place_of(world, event)
        if event.in_loop:
            reason = f"{event.what} is in a loop: a crash between two rounds leaves half of it done"
            world.report("SML032", module, node, reason, action=root.action)
            return
        earlier = next((one for one in raw[:place] if not excludes(one, event)), None)
        if earlier is not None:
            line = getattr(earlier.node, "lineno", 0)
            reason = (
                f"{event.what} is the second write of {root.action}, after line {line}: a crash"
                " between both leaves half of it done, and both carry the same key"
            )
            world.report("SML032", module, node, reason, action=root.action)
            return


def _passes_key(world: World, root: Root) -> None:
    function = root.function
    assert function.declared is not None
    if contract_of(function.declared) != "native_key":
        return
    writes = [one for one in root.events if one.kind in ("write", "maybe")]
    passed = any(
        one.passes_key or one.kind == "key" or one.inputs.labelled("downstream")
        for one in root.events
    )
    if passed or not writes or "downstream_key" in function.declared.options:
        return
    module, node = place_of(world, writes[0])
    reason = (
        f"{root.action} says that the destination honours a key, and {writes[0].what} sends none:"
        " a repeat is a second one"
    )
    world.report("SML023", module, node, reason, action=root.action)


def _receipt(world: World, root: Root, raw: list[Event]) -> None:
    node = root.function.node
    returns = [*root.returns]
    if root.falls_through:
        returns.append(Value(const=None))
    if not returns:
        return
    if all(_is_empty(one) for one in returns):
        reason = (
            f"the receipt of {root.action} is a bare True or nothing: no repeat, and no person,"
            " learns from it what was done"
        )
        world.report("SML030", root.function.module, node, reason, action=root.action)
        return
    writes = [one for one in raw if one.family in _KNOWN_FAMILIES]
    if writes and all(_is_unrelated(one) for one in returns):
        reason = (
            f"what {writes[0].what} answered is thrown away: the receipt of {root.action} is made"
            " of what was known before"
        )
        module, place = place_of(world, writes[0])
        world.report("SML031", module, place, reason, action=root.action)


def _is_empty(value: Value) -> bool:
    return value.const is None or isinstance(value.const, bool) or value.shape == "bool"


def _is_unrelated(value: Value) -> bool:
    """Whether a value surely has nothing of any answer in it."""
    if not isinstance(value.const, Unknown):
        return True
    labels = {taint.label for taint in value.everything}
    if labels & {"answer", "looked", "downstream", "model"}:
        return False
    if value.items is not None:
        return not value.taints and all(_is_unrelated(one) for one in value.items.values())
    return bool(labels)
