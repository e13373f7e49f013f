"""`semel bench python`: steps a second of runs with ten steps each, in this process."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any

from ._async_app import AsyncSemel
from ._commands import global_options
from ._context import WorkflowContext
from ._declare import function
from ._native import Bench
from ._workflow import workflow

_AT_ONCE = (1, 32, 256)
_STEPS = 10
_MORE = 5
"""Rows of a run beside those of its steps: its own, written twice, start, take and end."""


@function
async def nothing(subject: str, number: int) -> dict[str, Any]:
    """A step whose work costs nothing, so that only Semel is measured."""
    return {"subject": subject, "number": number}


_latencies: list[float] = []


@workflow(name="semel-bench")
async def steps(ctx: WorkflowContext, subject: str) -> int:
    """Ten steps, one after the other."""
    began = time.perf_counter()
    for number in range(_STEPS):
        await ctx.step(nothing, subject, number)
        now = time.perf_counter()
        _latencies.append((now - began) * 1000)
        began = now
    return _STEPS


def bench(arguments: list[str]) -> int:
    """Measures steps a second and the time of one, at 1, 32 and 256 runs at once."""
    parser = argparse.ArgumentParser("semel bench python", description=bench.__doc__)
    global_options(parser)
    parser.add_argument("command", help=argparse.SUPPRESS)
    parser.add_argument("what", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each number of runs (4)")
    options = parser.parse_args(arguments)
    # Only a server that this very line names: a measurement must not land where a team works.
    server = options.store if "--store" in arguments else None
    if server is not None and not server.startswith("postgres"):
        print(
            "error: without --store it measures on SQLite, with one on that Postgres",
            file=sys.stderr,
        )
        return 2
    results: list[dict[str, Any]] = []
    for at_once in _AT_ONCE:
        print(f"bench: {at_once} at once, {options.seconds:g} s …", file=sys.stderr)
        results.append(_measure(server, at_once, options.seconds))
    if options.json:
        print(json.dumps({"results": results}))
    else:
        _print(results)
    return 0


def _measure(server: str | None, at_once: int, seconds: float) -> dict[str, Any]:
    place = Bench(server)
    try:
        runs, elapsed = asyncio.run(_work(place, at_once, seconds))
        rows = runs * (_STEPS + _MORE)
        rows_per_commit, raw_per_s = place.beside(rows)
    finally:
        place.remove()
    ordered = sorted(_latencies)
    return {
        "name": "python steps",
        "store": "sqlite" if server is None else "postgres",
        "concurrency": at_once,
        "per_s": round(runs * _STEPS / elapsed, 1),
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "rows_per_commit": round(rows_per_commit, 1),
        "raw_per_s": round(raw_per_s, 1),
        "ratio": round(rows / elapsed / raw_per_s, 3),
    }


async def _work(place: Bench, at_once: int, seconds: float) -> tuple[int, float]:
    """Runs in a row, so many at once; how many came to an end, and in what time."""
    _latencies.clear()
    runs = 0
    app = await AsyncSemel.on(place.app())
    began = time.perf_counter()
    until = began + seconds

    async def caller(number: int) -> None:
        nonlocal runs
        turn = 0
        while time.perf_counter() < until:
            subject = f"{number}-{turn}"
            handle = await app.start(steps, subject, key=subject)
            await handle.result()
            runs += 1
            turn += 1

    await asyncio.gather(*(caller(number) for number in range(at_once)))
    elapsed = time.perf_counter() - began
    await app.close()
    return runs, elapsed


def _print(results: list[dict[str, Any]]) -> None:
    print(
        f"{'STORE':10} {'AT ONCE':>8} {'STEPS/S':>10} {'P50 MS':>9} {'P99 MS':>9}"
        f" {'ROWS/COMMIT':>12} {'RAW ROWS/S':>11} {'RATIO':>6}"
    )
    for one in results:
        print(
            f"{one['store']:10} {one['concurrency']:8} {one['per_s']:10.0f}"
            f" {one['p50_ms']:9.3f} {one['p99_ms']:9.3f}"
            f" {one['rows_per_commit']:12.1f} {one['raw_per_s']:11.0f} {one['ratio']:6.2f}"
        )
