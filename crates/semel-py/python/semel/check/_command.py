"""`semel check app.py:workflow`: the command line of a check."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any, cast

from .._errors import SemelError
from ._counter import load_counter
from ._double import Wanted
from ._lives import Unready, Wrong
from ._progress import Progress
from ._stage import DONE, ENDS, KEY, Setting, key_words
from ._target import Missing, Target
from ._trial import Budget, Trial, usual_jobs

OK, FAILED, USAGE, NOT_FOUND, INTERRUPTED = 0, 1, 2, 3, 130


def check(arguments: list[str]) -> int:
    """Kills a workflow before and after every write and recovers it, lets its destinations fail,
    repeats whatever can come twice, and counts what there is at the destinations."""
    parser = _parser()
    options = parser.parse_args(arguments)
    # Whoever ends it ends everything that it has started, and leaves no files.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        trial = _trial(options, parser)
        report = trial.run()
    except KeyboardInterrupt:
        print("error: interrupted; nothing was left behind", file=sys.stderr)
        return INTERRUPTED
    except Missing as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_FOUND
    except Unready as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE if isinstance(error, Wrong) else FAILED
    except SemelError as error:
        print(f"error: {error}", file=sys.stderr)
        print(f"hint: see docs/errors/{error.code}.md", file=sys.stderr)
        return FAILED
    print(report.json() if options.json else report.text)
    if options.junit is not None and not _write(options.junit, report.junit):
        return FAILED
    return OK if report.is_ok else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("semel check", description=check.__doc__)
    add = parser.add_argument
    add("command", help=argparse.SUPPRESS)
    add("target", metavar="FILE:NAME", help="the file, and the workflow or effect in it")
    add("--store", help=argparse.SUPPRESS)
    add("--namespace", help=argparse.SUPPRESS)
    add("--input", type=Path, metavar="FILE", help="the input of the run, as JSON (null)")
    add(
        "--key",
        action="append",
        metavar="PART",
        help="the key that the run is started under, each of its parts (check)",
    )
    add(
        "--double",
        action="append",
        default=[],
        metavar="NAME[=MODE|FILE.json]",
        help="start a stand-in for a destination and put its address into the variable NAME; "
        "modes: keys, lookup, conditional, plain (keys)",
    )
    add(
        "--counter",
        metavar="FILE.py:FUNCTION",
        help="a function that says how many objects your own destinations have, by name",
    )
    add(
        "--respond",
        metavar="FILE|JSON",
        help="what signals, callbacks and approvals are answered with, by name: a file, or {…}",
    )
    add(
        "--mode",
        choices=["fast", "process"],
        default="fast",
        help="fork each life off one process (fast), or start an interpreter for each (process)",
    )
    add(
        "--ends",
        choices=ENDS,
        default=DONE,
        help="how the run ends where nothing goes wrong; another end is an error (done)",
    )
    add("--budget", metavar="60s|CASES", help="stop after this time, or try so many cases")
    add("--pairs", action="store_true", help="two deaths, too: at each point, and at each after it")
    add("--only", metavar="CASE", help="play one case, by its name")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="how many cases are played at once (two for each core)",
    )
    add("--junit", type=Path, metavar="FILE", help="write the report for a build server")
    add("--json", action="store_true", help="print the report as JSON")
    add("--quiet", action="store_true", help="print the report alone, not each case")
    return parser


def _trial(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Trial:
    target = Target.parse(options.target)
    _look_for_room(options.junit)
    try:
        budget = Budget.parse(options.budget) if options.budget else Budget()
    except SemelError:
        parser.error("--budget is a number of cases, such as 40, or a time, such as 60s")
    budget = Budget(budget.cases, budget.seconds, options.pairs)
    setting = Setting(
        target=target,
        input=_read(options.input),
        key=options.key or [KEY],
        doubles=[Wanted.parse(text) for text in options.double],
        counter=None if options.counter is None else load_counter(options.counter),
        respond=_respond(options.respond),
        mode=options.mode,
        ends=options.ends,
    )
    progress = Progress(sys.stderr, is_quiet=options.quiet or options.json)
    jobs = options.jobs or usual_jobs()
    command = again(options)
    return Trial(setting, budget, command, jobs, options.only, progress.hear)


def again(options: argparse.Namespace) -> str:
    """The command that plays one case of this check again."""
    words = ["semel", "check", options.target]
    for name in ("input", "counter", "respond"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name}", str(value)]
    words += key_words(options.key or [KEY])
    words += [word for double in options.double for word in ("--double", double)]
    words += [] if options.mode == "fast" else ["--mode", options.mode]
    words += [] if options.ends == DONE else ["--ends", options.ends]
    return f"{shlex.join(words)} --only {{case}}"


def _read(file: Path | None) -> Any:
    if file is None:
        return None
    try:
        return _parse(file.read_text(), str(file))
    except FileNotFoundError as error:
        raise Missing(f"there is no file {file}") from error
    except OSError as error:
        raise Missing(f"{file} cannot be read: {error.strerror}") from error


def _parse(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Wrong(f"{name} is no JSON: {error}", code="input_invalid") from error


def _respond(text: str | None) -> dict[str, Any]:
    """Answers by name, of a file, or as they are: so the command to play a case again is whole."""
    if text is None:
        return {}
    found = _parse(text, "--respond") if text.startswith("{") else _read(Path(text))
    if not isinstance(found, dict):
        raise Wrong("--respond has no answers by name", code="input_invalid")
    return cast(dict[str, Any], found)


def _look_for_room(file: Path | None) -> None:
    """Before anything runs: a check may take minutes, and its report is to be kept."""
    if file is None:
        return
    if not file.absolute().parent.is_dir():
        raise Missing(f"there is no folder {file.parent} for {file.name}")
    if file.is_dir():
        raise Wrong(f"{file} is a folder", code="input_invalid")


def _write(file: Path, text: str) -> bool:
    try:
        file.write_text(text)
    except OSError as error:
        print(f"error: {file} cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True
