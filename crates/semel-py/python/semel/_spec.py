"""`semel spec app.py`: what an application declares, written down for whoever reviews it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from . import _current
from ._commands import global_options, load
from ._errors import SemelError
from ._native import spec_diff, spec_text

_DIFFERS = 4


def spec(arguments: list[str]) -> int:
    """`semel spec app.py`: seven fields and a checklist for each effect of a file."""
    parser = argparse.ArgumentParser("semel spec", description=spec.__doc__)
    global_options(parser)
    parser.add_argument("command", help=argparse.SUPPRESS)
    parser.add_argument("app", type=Path, help="the Python file with the workflows and effects")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", type=Path, metavar="FILE", help="write it to this file")
    where.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="compare it with this file; ends with 4 and shows what differs if it is not the same",
    )
    options = parser.parse_args(arguments)
    for path in (options.app, options.check):
        if path is not None and not path.is_file():
            print(f"error: there is no file {path}", file=sys.stderr)
            return 3
    try:
        text = spec_of(options.app, options.json)
    except SemelError as error:
        print(f"error: {error}", file=sys.stderr)
        print(f"hint: see docs/errors/{error.code}.md", file=sys.stderr)
        return 1
    except Exception as error:  # the application's own
        print(f"error: {options.app} cannot be loaded: {error!r}", file=sys.stderr)
        print("hint: it is imported as a module; set what it needs for that", file=sys.stderr)
        return 1
    if options.check is not None:
        return _check(options.check, text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def spec_of(app: Path, as_json: bool = False) -> str:
    """The spec of a file, as Markdown or as JSON."""
    return spec_text(json.dumps(registry_of(app)), as_json)


def registry_of(app: Path) -> dict[str, object]:
    """What a file declares, as plain data."""
    # What it prints while it is loaded is not the spec; and the store that it opens meanwhile is
    # its users' own, or cannot be reached from here.
    with contextlib.redirect_stdout(sys.stderr), _current.redirected("memory:"):
        module = load(app)
    from ._declarations import registry

    return registry(module, app)


def _check(committed: Path, text: str) -> int:
    differs = spec_diff(committed.read_text(encoding="utf-8"), text)
    if differs is None:
        return 0
    print(differs, end="")
    print(f"error: {committed} is not what the code declares", file=sys.stderr)
    print(f"\nhint: look at it, then write it with --output {committed}", file=sys.stderr)
    return _DIFFERS
