"""The command line: `semel …` and `python -m semel …`."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs one command line and returns its exit code."""
    from . import _native
    from ._commands import python_command

    arguments = sys.argv[1:]
    command = python_command(arguments)
    if command is not None:
        return command(arguments)
    return _native.cli(["semel", *arguments])


if __name__ == "__main__":
    sys.exit(main())
