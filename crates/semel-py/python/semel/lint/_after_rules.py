"""Rules about what an effect does around its write: calls after it, and retries of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._declared import contract_of
from ._roots import excludes, place_of

if TYPE_CHECKING:
    import ast

    from ._frame import Event, World
    from ._roots import Root

_CONTRACTS_IN_DOUBT = (None, "at_most_once", "probe")


def check_around_write(world: World, root: Root, raw: list[Event]) -> None:
    """Looks at what an effect does after its write, and at what repeats it."""
    _call_after_write(world, root, raw)
    _retries_around_write(world, root, raw)


def _call_after_write(world: World, root: Root, raw: list[Event]) -> None:
    assert root.function.declared is not None
    if not raw or contract_of(root.function.declared) not in _CONTRACTS_IN_DOUBT:
        return
    write = raw[0]
    place = next(place for place, one in enumerate(root.events) if one is write)
    for event in root.events[place + 1 :]:
        if event.kind in ("read", "model") and not excludes(write, event):
            module, node = place_of(world, event)
            line = getattr(write.node, "lineno", 0)
            reason = (
                f"{event.what} is called after the write of line {line}: if it fails, the outcome"
                f" of {root.action} is unknown, and a person has to settle it"
            )
            world.report("SML035", module, node, reason, action=root.action)
            return


def _retries_around_write(world: World, root: Root, raw: list[Event]) -> None:
    for node, (module, decorator, name) in world.retried.items():
        if node is root.function.node or any(_is_in(one, module, node) for one in raw):
            reason = f"{name} repeats the write of {root.action} {_UNSEEN}"
            world.report("SML036", module, decorator, reason, action=root.action)
    writes = [one for one in raw if one.family == "http"]
    for module, node, name in world.retriers:
        if any(one.module is module for one in writes):
            reason = f"{name} repeats the write of {root.action} {_UNSEEN}"
            world.report("SML036", module, node, reason, action=root.action)


_UNSEEN = "inside of one attempt: the last error says nothing about the tries before it"


def _is_in(event: Event, module: object, function: ast.AST) -> bool:
    first, last = getattr(function, "lineno", 0), getattr(function, "end_lineno", 0)
    return event.module is module and first <= getattr(event.node, "lineno", 0) <= last
