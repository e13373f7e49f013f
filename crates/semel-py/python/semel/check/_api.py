"""A check, from Python."""

from __future__ import annotations

import contextlib
import inspect
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._codec import codec
from .._effect import Effect
from .._errors import SemelError
from .._workflow import Workflow
from ._counter import load_counter
from ._double import Wanted
from ._lives import Mode
from ._report import Report
from ._stage import DONE, KEY, Counting, Setting, key_words
from ._target import Target
from ._trial import Budget, Trial, Watch, usual_jobs

Checked = Workflow[..., Any] | Effect[..., Any] | str
"""What is checked: itself, or as `"app.py:name"`."""


def check_workflow(
    workflow: Checked,
    input: Any = None,
    *,
    key: str | Sequence[str] = KEY,
    doubles: Mapping[str, str] | None = None,
    counter: Counting | str | None = None,
    respond: Mapping[str, Any] | None = None,
    budget: str | int | None = None,
    mode: Mode = "fast",
    ends: str = DONE,
    only: str | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
    command: str | None = None,
) -> Report:
    """Kills a workflow before and after every write, lets its destinations fail, repeats whatever
    can come twice, and counts: `check_workflow(triage, inbound, doubles={"CRM_URL": "keys"})`.

    `doubles` are stand-ins for destinations: the variable that the address of each goes into, and
    its mode or script. `counter` says how many objects other destinations have, by name. `respond`
    are the answers to signals and callbacks, by name; approvals are given. `budget` is a number of
    cases, or a time such as `"60s"`; `only` plays the case of that name. A run that does not end
    well without any fault is refused, unless `ends` says so: `ends="failed"`. `command` is what the
    report says to play a case again, with `{case}` for its name."""
    setting = Setting(
        target=_target(workflow),
        input=_plain(input),
        key=[key] if isinstance(key, str) else list(key),
        doubles=[Wanted(variable, kind) for variable, kind in (doubles or {}).items()],
        counter=load_counter(counter) if isinstance(counter, str) else counter,
        respond={name: _plain(value) for name, value in (respond or {}).items()},
        mode=mode,
        ends=ends,
    )
    words = Budget() if budget is None else Budget.parse(str(budget))
    jobs = jobs or usual_jobs()
    return Trial(setting, words, command or _again(setting, counter), jobs, only, watch).run()


def _again(setting: Setting, counter: Counting | str | None) -> str:
    """The command that plays one case again."""
    words = ["semel", "check", f"{_near(setting.target.file)}:{setting.target.name}"]
    words += ["--input", "/dev/stdin", *key_words(setting.key), "--mode", setting.mode]
    words += [
        word for one in setting.doubles for word in ("--double", f"{one.variable}={one.mode}")
    ]
    words += ["--respond", json.dumps(setting.respond)] if setting.respond else []
    words += [] if setting.ends == DONE else ["--ends", setting.ends]
    words += ["--counter", counter] if isinstance(counter, str) else []
    return f"echo {shlex.quote(json.dumps(setting.input))} | {shlex.join(words)} --only {{case}}"


def _target(workflow: Checked) -> Target:
    """Where the processes of the check find it: they import its file for themselves."""
    if isinstance(workflow, str):
        return Target.parse(workflow)
    if not isinstance(workflow, (Workflow, Effect)):
        raise TypeError(f"{workflow!r} is no workflow and no effect")
    function = inspect.unwrap(workflow.function)
    file = inspect.getsourcefile(function)
    name = function.__qualname__
    if file is None or "." in name:
        words = f"{name} is not at the top of a file: say where it is, as `app.py:name`"
        raise SemelError(words, code="input_invalid")
    return Target(Path(file).resolve(), name)


def _plain(value: Any) -> Any:
    """Plain JSON of a value, which may be a typed model."""
    return json.loads(codec(Any).dump(value))


def _near(file: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(file.relative_to(Path.cwd()))
    return str(file)
