"""The commands that need Python: `semel worker`, `semel lint`, `semel check` and others."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ._errors import SemelError

Command = Callable[[list[str]], int]


def python_command(arguments: list[str]) -> Command | None:
    """The command of ours that a line asks for, if it does."""
    words = _without_options(arguments)
    if words[:1] == ["worker"]:
        return work
    if words[:1] == ["check"] and words[1:2] != ["destination"]:
        from .check._command import check

        return check
    if words[:1] == ["lint"] and not _is_about_rust(words):
        from .lint._command import lint

        return lint
    if words[:1] == ["spec"] and not _is_about_rust(words):
        from ._spec import spec

        return spec
    if words[:2] == ["bench", "python"]:
        from ._bench import bench

        return bench
    return None


def _is_about_rust(words: list[str]) -> bool:
    """Whether a line is about the registry of an application in Rust. A file to write may be JSON,
    too."""
    ends = {word.rpartition(".")[2] for word in words}
    return "json" in ends and "py" not in ends


def _without_options(arguments: list[str]) -> list[str]:
    """The words of a line, without options that stand before the command."""
    words: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in ("--store", "--namespace"):
            skip = True
        elif not argument.startswith("-"):
            words.append(argument)
    return words


def global_options(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    parser.add_argument("--store", default=os.environ.get("SEMEL_STORE"), metavar="URL")
    parser.add_argument("--namespace", default=os.environ.get("SEMEL_NAMESPACE"), metavar="NAME")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)


def work(arguments: list[str]) -> int:
    """`semel worker app.py`: offers every workflow and effect of a file."""
    parser = argparse.ArgumentParser("semel worker", description=work.__doc__)
    global_options(parser)
    parser.add_argument("command", help=argparse.SUPPRESS)
    parser.add_argument("app", type=Path, help="the Python file with the workflows and effects")
    parser.add_argument("--release", help="names this version of the code (a digest of the source)")
    parser.add_argument(
        "--lease",
        metavar="DURATION",
        help="how long a run stays with a silent process (30s)",
    )
    parser.add_argument(
        "--patience",
        metavar="DURATION",
        default="30s",
        help="how long a stopping worker waits for what it has under way (30s)",
    )
    parser.add_argument(
        "--draft", action="store_true", help="runs start by its name, in the draft twin"
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="restart when a file changes; runs under way go on with the new code",
    )
    options = parser.parse_args(arguments)
    if not options.app.is_file():
        print(f"error: there is no file {options.app}", file=sys.stderr)
        return 3
    if options.reload:
        words = [word for word in arguments if word != "--reload"]
        # One name for all that is tried: runs of the code before the change go on with the new one
        # at once, instead of waiting for a release that nobody offers any more.
        named = [] if options.release else ["--release", "dev"]
        return _reload([*words, *named], options.app)
    try:
        return _work(options)
    except SemelError as error:
        print(f"error: {error}", file=sys.stderr)
        print(f"hint: see docs/errors/{error.code}.md", file=sys.stderr)
        return 1


def _work(options: argparse.Namespace) -> int:
    from ._app import Semel
    from ._effect import Effect
    from ._tools import Tool
    from ._transaction import Transactional
    from ._worker import Worker
    from ._workflow import Workflow

    module = load(options.app)
    found: list[Any] = list(vars(module).values())
    workflows: dict[str, Workflow[..., Any]] = {
        one.name: one for one in found if isinstance(one, Workflow)
    }
    offered: list[Tool[..., Any]] = [one for one in found if isinstance(one, Tool)]
    found.extend(one.declared for one in offered)
    effects: dict[str, Effect[..., Any]] = {
        one.action: one
        for one in found
        if isinstance(one, Effect)
        and not isinstance(one, Transactional)
        and not one.shape.is_method
    }
    if not workflows and not effects:
        print(f"error: {options.app} declares no workflow and no effect", file=sys.stderr)
        print("hint: decorate one with @workflow or @effect", file=sys.stderr)
        return 1
    own = [one for one in found if isinstance(one, Semel)]
    if options.store is None and own:
        app = own[0]
    else:
        app = Semel(options.store or "sqlite:semel.db", options.namespace)
    worker = Worker(
        app,
        workflows.values(),
        effects.values(),
        release=options.release,
        draft=options.draft,
        lease=options.lease,
        patience=options.patience,
    )
    names = ", ".join(workflows) or "none"
    print(
        f"worker: workflows {names}; {len(effects)} effects; Ctrl-C or SIGTERM ends it",
        file=sys.stderr,
    )
    with app.as_current():
        worker.run()
    print("worker: stopped; nothing is lost", file=sys.stderr)
    return 0


def load(path: Path) -> ModuleType:
    """Loads a Python file as a module of its own name."""
    path = path.resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SemelError(f"{path.name} is no Python file", code="input_invalid")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _reload(arguments: list[str], app: Path) -> int:
    """Runs the worker as a child, and another one whenever a Python file beside it changes."""
    stop: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        stop.append(number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    while True:
        seen = _stamps(app)
        child = subprocess.Popen([sys.executable, "-m", "semel", *arguments])
        while not stop and child.poll() is None and _stamps(app) == seen:
            time.sleep(0.3)
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            child.wait()
        if stop:
            return child.returncode
        if _stamps(app) == seen:
            print("worker: ended; waiting for a change", file=sys.stderr)
            while not stop and _stamps(app) == seen:
                time.sleep(0.3)
            if stop:
                return 0
        print("worker: a file changed; starting again", file=sys.stderr)


def _stamps(app: Path) -> dict[str, int]:
    """When each Python file beside the app was last written."""
    stamps: dict[str, int] = {}
    for path in app.resolve().parent.rglob("*.py"):
        try:
            stamps[str(path)] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return stamps
