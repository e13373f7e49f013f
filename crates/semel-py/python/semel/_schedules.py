"""Schedules: runs that start by the clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from ._children import started
from ._codec import codec
from ._workflow import Workflow

CatchUp = Literal["skip", "once", "all"]


@dataclass(frozen=True)
class Schedule:
    """A schedule, as it stands."""

    name: str
    workflow: str
    cron: str
    zone: str
    catch_up: CatchUp
    """What becomes of ticks that nobody was there for."""
    input: Any
    """What each run gets, as plain JSON."""
    is_paused: bool
    next: list[datetime]
    """The next ticks, in UTC; none of them fires while it is paused."""
    last: datetime | None
    """The latest tick that was decided on."""
    fired: int
    """How many ticks have a run."""
    skipped: int
    """How many have none: late, missed, paused over, or refused."""


def read_schedule(view: Mapping[str, Any]) -> Schedule:
    """A schedule, as the engine tells it."""
    last: Any = view.get("last")
    return Schedule(
        view["name"],
        view["workflow"],
        view["cron"],
        view["zone"],
        view["catch_up"],
        view["input"],
        view["state"] == "paused",
        [_moment(tick["utc"]) for tick in view["next"]],
        None if last is None else _moment(last["utc"]),
        view["fired"],
        view["skipped"],
    )


def _moment(text: str) -> datetime:
    moment: datetime = codec(datetime).load(json.dumps(text))
    return moment


def scheduled(workflow: Workflow[..., Any] | str, input: Any) -> tuple[str, str]:
    """The workflow that each tick starts, and what its runs get: the one input, or for a workflow
    of several parameters a mapping of them."""
    args: tuple[Any, ...] = (input,)
    kwargs: dict[str, Any] = {}
    if isinstance(workflow, Workflow) and len(workflow.shape.names) != 1:
        args = ()
        if isinstance(input, Mapping):
            kwargs = dict(cast(Mapping[str, Any], input))
        elif input is not None:
            raise TypeError(f"input= is a mapping of the parameters of {workflow.name}")
    elif isinstance(workflow, Workflow) and input is None:
        only = workflow.shape.parameters[0]
        args = () if only.default is not only.empty else args
    name, stored, _ = started(workflow, args, kwargs)
    return name, stored
