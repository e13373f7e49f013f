"""The command line: `semel …` and `python -m semel …`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs one command line and returns its exit code."""
    from . import _native
    from ._commands import python_command

    arguments = sys.argv[1:]
    command = python_command(arguments)
    if command is not None:
        return command(arguments)
    # Where the command starts Python, it is the one that runs it.
    os.environ.setdefault("SEMEL_PYTHON", sys.executable)
    # Python only notes a Ctrl-C and looks at it later, and here there is no later: the command runs
    # in Rust. One that is ignored stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.cli(["semel", *arguments])


if __name__ == "__main__":
    sys.exit(main())
