"""What `import semel` costs, and what the package offers."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import semel

HEAVY = ("pydantic", "pydantic_core", "httpx", "requests", "stripe", "psycopg", "uvloop", "anyio")


def imported(program: str) -> set[str]:
    """The modules that a program has loaded at its end."""
    source = f"{program}\nimport sys\nprint(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.split())


def test_the_import_loads_nothing_heavy() -> None:
    modules = imported("import semel")
    assert modules.isdisjoint({*HEAVY, "asyncio", "semel._native"}), "a name was not used yet"
    modules = imported("from semel import Semel, effect, workflow")
    assert "semel._native" in modules
    assert modules.isdisjoint(HEAVY)


def test_declaring_loads_nothing_heavy() -> None:
    program = """
from semel import *
import semel

@effect("e", key="{id}", contract=native_key("24h"), fingerprint=["id"])
def send(id: str) -> str: return id

@function(retries=3)
def step(x: int) -> int: return x

@workflow
async def flow(ctx: WorkflowContext, x: int) -> int: return await ctx.step(step, x)

semel.tools([semel.tool(send)], id="1")
"""
    assert imported(program).isdisjoint(HEAVY)


def test_the_import_starts_nothing() -> None:
    program = "import semel, threading, os; assert threading.active_count() == 1"
    program += "; assert len(os.listdir('/proc/self/task')) == 1"
    assert "semel" in imported(program)


def test_the_import_is_quick(tmp_path: Path) -> None:
    """Counted is the time of the processor: other programs on this machine do not matter."""
    program = """
import asyncio, concurrent.futures, dataclasses, inspect, json, logging, time, typing
before = time.process_time()
from semel import Semel, effect, workflow
print(time.process_time() - before)
"""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    taken = []
    for _ in range(4):  # the first one compiles
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        taken.append(float(done.stdout))
    assert min(taken) < 0.1


def test_everything_that_is_offered_is_there() -> None:
    assert len(semel.__all__) == len(set(semel.__all__))
    for name in semel.__all__:
        assert getattr(semel, name) is not None


def test_the_version_is_the_package_s() -> None:
    try:
        installed = importlib.metadata.version("semel")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")
    assert semel.__version__ == installed


@pytest.mark.parametrize("module", ["httpx", "requests", "stripe", "classify", "keys"])
def test_submodules_are_found_by_their_names(module: str) -> None:
    if module in ("httpx", "requests", "stripe"):
        pytest.importorskip(module)
    assert f"semel.{module}" in imported(f"import semel.{module}")
