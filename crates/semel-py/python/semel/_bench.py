"""`semel bench python`: steps a second of runs with ten steps each, in this process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._app import AsyncSemel
from ._commands import global_options
from ._context import WorkflowContext
from ._declare import function, workflow

_AT_ONCE = (1, 32, 256)
_STEPS = 10


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
    # Only one that this very line names: a measurement must not fill the store of a team.
    store = options.store if "--store" in arguments else None
    results = []
    for at_once in _AT_ONCE:
        print(f"bench: {at_once} at once, {options.seconds:g} s …", file=sys.stderr)
        with _place(store) as url:
            results.append(asyncio.run(_measure(url, at_once, options.seconds)))
    if options.json:
        print(json.dumps({"results": results}))
    else:
        _print(results)
    return 0


@contextlib.contextmanager
def _place(store: str | None) -> Iterator[str]:
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:{Path(folder) / 'bench.db'}"


async def _measure(url: str, at_once: int, seconds: float) -> dict[str, Any]:
    _latencies.clear()
    runs = 0
    tag = f"{time.time_ns():x}"
    async with AsyncSemel(url, namespace="bench") as app:
        began = time.perf_counter()
        until = began + seconds

        async def caller(number: int) -> None:
            nonlocal runs
            turn = 0
            while time.perf_counter() < until:
                subject = f"{tag}-{number}-{turn}"
                handle = await app.start(steps, subject, key=subject)
                await handle.result()
                runs += 1
                turn += 1

        await asyncio.gather(*(caller(number) for number in range(at_once)))
        elapsed = time.perf_counter() - began
    ordered = sorted(_latencies)
    return {
        "name": "python steps",
        "store": url.partition(":")[0],
        "concurrency": at_once,
        "per_s": round(runs * _STEPS / elapsed, 1),
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
    }


def _print(results: list[dict[str, Any]]) -> None:
    print(f"{'STORE':10} {'AT ONCE':>8} {'STEPS/S':>10} {'P50 MS':>9} {'P99 MS':>9}")
    for one in results:
        print(
            f"{one['store']:10} {one['concurrency']:8} {one['per_s']:10.0f}"
            f" {one['p50_ms']:9.3f} {one['p99_ms']:9.3f}"
        )
