"""One life: a process that starts the run, brings it as far as it goes, and says what it saw."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._app import Semel
from .._errors import SemelError
from .._handles import RunHandle
from .._host import ask_blocking
from .._workflow import Workflow
from ._drive import Driver
from ._target import Target, arguments_of, load_target


@dataclass
class Life:
    """What a life is to do, and where it dies or stops."""

    file: str
    name: str
    input: Any
    key: list[str]
    folder: str
    """Holds the store, the clock and what lives say."""
    number: int = 0
    release: str = "check-1"
    die_at: str = "nowhere"
    stop_at: str = ""
    starters: int = 1
    """How many start the run at once."""
    repeat: str = ""
    """The wait that is answered twice."""
    hurry: bool = False
    """Time flies while a send is under way: its destination does not answer."""
    respond: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def store(self) -> str:
        """The address of its ledger."""
        return f"sqlite:{self.folder}/semel.db"

    @property
    def said(self) -> Path:
        """Where it writes what it saw."""
        return Path(self.folder) / f"life-{self.number}.json"

    @property
    def words(self) -> Path:
        """Where everything goes that it prints."""
        return Path(self.folder) / f"life-{self.number}.err"

    def environment(self) -> dict[str, str]:
        """What makes a process rehearse."""
        return {
            "SEMEL_STORE": self.store,
            "SEMEL_REHEARSE_DIE_AT": self.die_at,
            "SEMEL_REHEARSE_STOP_AT": self.stop_at,
            "SEMEL_REHEARSE_CLOCK": f"{self.folder}/clock",
        }

    def to_json(self) -> str:
        """As it is handed to another process."""
        return json.dumps(asdict(self))


def become(life: Life, workflow: Workflow[..., Any] | None = None) -> int:
    """Lives it, in this process, whose output goes into files. Returns the exit code."""
    words = os.open(life.words, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    os.dup2(words, 1)
    os.dup2(words, 2)
    os.environ.update(life.environment())
    try:
        if workflow is None:
            workflow = load_target(Target(Path(life.file), life.name), life.store)
        said = live(life, workflow)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 70
    # Renamed into its place: whoever is killed meanwhile has said nothing.
    new = life.said.with_suffix(".new")
    new.write_text(json.dumps(said))
    new.rename(life.said)
    return 0


def live(life: Life, workflow: Workflow[..., Any]) -> dict[str, Any]:
    """Starts the run and goes with it. Returns what there is to see afterwards."""
    from .._current import redirect

    redirect(life.store)
    app = own_ledger() or Semel(life.store, release=life.release)
    app.offer(workflow, life.release)
    run, others = start(app, life, workflow)
    driver = Driver(app, run, life.respond, life.repeat, life.hurry)
    ended = driver.drive()
    answers = [result_of(one) for one in [run, *others]] if ended == "ended" else []
    return {
        "ended": ended,
        "result": answers[0] if answers else None,
        "other_answers": sum(answer != answers[0] for answer in answers) + driver.other_answers,
        "answered": driver.answered,
        "repeated": driver.repeated,
        "starts": 1 + len(others),
        "run": run.id,
        "look": driver.look(),
    }


def own_ledger() -> Semel | None:
    """The Semel that the file itself has opened."""
    from .._app import _opened

    return next(iter(_opened), None)


def start(
    app: Semel, life: Life, workflow: Workflow[..., Any]
) -> tuple[RunHandle[Any], list[RunHandle[Any]]]:
    """Starts the run, several times at once where that is wanted."""
    args, kwargs = arguments_of(workflow, life.input)
    runs: list[RunHandle[Any]] = []
    errors: list[BaseException] = []
    together = threading.Barrier(life.starters)

    def begin() -> None:
        together.wait()
        try:
            runs.append(app.start(workflow, *args, key=life.key, **kwargs))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(life.starters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    if len({run.id for run in runs}) != 1:
        raise SemelError("one key has started several runs", code="internal")
    return runs[0], runs[1:]


def result_of(run: RunHandle[Any]) -> str:
    """What a run came to, as text."""
    try:
        return json.dumps(json.loads(ask_blocking(run._native.result, 20)), sort_keys=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
