"""Threads for sync work of runs. Each piece is done once, or is refused and never begun."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable

THREADS_MAX = 64
"""Sync functions that run at once on one event loop; more wait, and are not begun meanwhile."""
_NAME = "semel-step"


class Threads:
    """A pool that keeps its word when a thread cannot be started, or the interpreter ends."""

    def __init__(self) -> None:
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    def begin(self, work: Callable[[], object]) -> None:
        """Lets a thread do it. Raises only if it was not begun and never will be."""
        # Whoever takes the ticket does it: an executor that fails to start a thread raises, and has
        # the piece in its queue all the same, for the next thread that is free.
        ticket = [work]

        def once() -> None:
            if mine := _taken(ticket):
                mine()

        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(THREADS_MAX, _NAME)
        try:
            self._pool.submit(once)
        except RuntimeError:
            # At the end of the interpreter it takes nothing more, though runs still go on until
            # they are let go: it is not their failure.
            try:
                threading.Thread(target=once, name=_NAME, daemon=True).start()
            except RuntimeError:
                if _taken(ticket):
                    raise

    def close(self) -> None:
        """What was not begun is not begun any more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _taken(ticket: list[Callable[[], object]]) -> Callable[[], object] | None:
    try:
        return ticket.pop()  # of two threads one gets it
    except IndexError:
        return None
