"""The program that bears lives: `python -m semel.check.nursery FD MODE FILE:NAME SCRATCH`.

In fast mode it has imported the file once and forks each life off itself: it opens no ledger and
starts no thread, so that a life begins as a process of its own would, only behind all imports. In
process mode each life is a fresh interpreter."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from ._life import Life, become
from ._target import Target, load_target, warm, why_not_forked

LOOK_SECONDS = 0.002


class Left(Exception):
    """Whoever asked is gone."""


class Nursery:
    """Bears lives when it is told to, and says how they ended."""

    def __init__(self, wire: socket.socket, workflow: Any) -> None:
        self._wire = wire
        self._lines = wire.makefile("r")
        self._workflow = workflow
        self._alive: set[int] = set()

    def serve(self) -> None:
        """Until whoever asks is gone, and then nothing is left behind."""
        try:
            for line in self._lines:
                self.say(self._answer(json.loads(line)))
        except (Left, OSError):
            pass
        finally:
            for pid in self._alive:
                os.kill(pid, signal.SIGKILL)

    def say(self, answer: dict[str, Any]) -> None:
        """Says one thing to whoever asks."""
        self._wire.sendall((json.dumps(answer) + "\n").encode())

    def _answer(self, ask: dict[str, Any]) -> dict[str, Any]:
        if "bear" in ask:
            return {"pid": self._bear(Life(**ask["bear"]))}
        return self._wait(ask["wait"], ask["seconds"])

    def _bear(self, life: Life) -> int:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                self._wire.close()
                code = self._live(life)
            finally:
                # Without farewell: what matters is written, and a life may end at any time.
                os._exit(code)
        self._alive.add(pid)
        return pid

    def _live(self, life: Life) -> int:
        if self._workflow is None:
            program = [sys.executable, "-m", "semel.check.nursery", "life", life.to_json()]
            os.execv(sys.executable, program)
        return become(life, self._workflow)

    def _wait(self, pid: int, seconds: float) -> dict[str, Any]:
        """Waits until it has ended, or stands still."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                return {"stopped": True}
            if found:
                self._alive.discard(pid)
                return {"code": os.waitstatus_to_exitcode(status)}
            # Nobody says anything before the answer: what can be read now is the end.
            if select.select([self._wire], [], [], LOOK_SECONDS)[0]:
                raise Left
        return {"late": True}


def main(words: list[str]) -> None:
    """Runs the nursery, or one life of process mode."""
    if words[0] == "life":
        code = become(Life(**json.loads(words[1])))
        sys.stdout.flush()
        os._exit(code)
    descriptor, mode, target, scratch = words
    wire = socket.socket(fileno=int(descriptor))
    workflow, told = None, {"mode": mode}
    if mode == "fast":
        file, _, name = target.rpartition(":")
        try:
            workflow = load_target(Target(Path(file), name), f"sqlite:{scratch}/import.db")
            warm(workflow)
        except BaseException as error:
            traceback.print_exc()
            told = {"error": f"{type(error).__name__}: {error}"}
        reason = why_not_forked()
        if reason is not None:
            workflow, told = None, {"mode": "process", "reason": reason}
    nursery = Nursery(wire, workflow)
    nursery.say(told)
    nursery.serve()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
