"""`semel lint app.py`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .._commands import global_options
from ._check import Checked, check_files
from ._frame import Finding
from ._rules import BY_NAME, RULES

_CLEAN, _FOUND, _NO_FILE = 0, 1, 3


def lint(arguments: list[str]) -> int:
    """`semel lint app.py`: finds what is not safe to repeat, without running anything."""
    options = _parse(arguments)
    for path in options.paths:
        if not path.exists():
            print(f"error: there is no file {path}", file=sys.stderr)
            return _NO_FILE
    checked = check_files(options.paths)
    shown = [one for one in checked.findings if _is_shown(one, options)]
    if options.json:
        print(json.dumps({"findings": [_as_json(one) for one in shown], "checked": checked.files}))
    else:
        _print(shown, checked)
    return _FOUND if any(one.level != "info" for one in shown) else _CLEAN


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "semel lint", description=lint.__doc__, epilog="docs/lint.md explains each code."
    )
    global_options(parser)
    parser.add_argument("command", help=argparse.SUPPRESS)
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE", help="files, or folders with them"
    )
    parser.add_argument(
        "--select",
        type=_codes,
        action="extend",
        metavar="CODES",
        help="look for these alone: SML001,SML002, or names, or a beginning such as SML03",
    )
    parser.add_argument(
        "--ignore",
        type=_codes,
        action="extend",
        default=[],
        metavar="CODES",
        help="do not look for these",
    )
    parser.add_argument("--all", action="store_true", help="show what is only worth knowing, too")
    return parser.parse_intermixed_args(arguments)


def _codes(text: str) -> list[str]:
    """The codes that a word of the command line means."""
    found: list[str] = []
    for word in text.replace(" ", "").split(","):
        rule = BY_NAME.get(word.lower())
        codes = [rule.code] if rule else [one for one in RULES if one.startswith(word.upper())]
        if not word or not codes:
            raise argparse.ArgumentTypeError(f"there is no rule {word!r}; docs/lint.md lists them")
        found += codes
    return found


def _is_shown(finding: Finding, options: argparse.Namespace) -> bool:
    if options.select is not None:
        return finding.code in options.select and finding.code not in options.ignore
    if finding.level == "info" and not options.all:
        return False
    return finding.code not in options.ignore


def _as_json(finding: Finding) -> dict[str, object]:
    return {**asdict(finding), "name": finding.name, "level": finding.level}


def _print(shown: list[Finding], checked: Checked) -> None:
    for one in shown:
        print(f"{one.file}:{one.line}:{one.column}: {one.code} {one.reason} [{one.name}]")
        print(f"  hint: {one.better}")
    files = f"{checked.files} file" + ("" if checked.files == 1 else "s")
    if shown:
        found = f"{len(shown)} finding" + ("" if len(shown) == 1 else "s")
        print(f"lint: {found} in {files}; docs/lint.md explains each code", file=sys.stderr)
    else:
        print(f"lint: {files}, nothing found", file=sys.stderr)
