"""The package as it is installed: what is in the wheel, and what it asks of whoever installs it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
import semel

PACKAGE = distribution("semel")
ALLOWED = Path(__file__).parents[1] / "stubtest.txt"


def test_the_wheel_has_types_and_the_stub_of_the_native_part() -> None:
    files = {str(path) for path in PACKAGE.files or []}
    assert {"semel/py.typed", "semel/_native.pyi", "semel/_native.abi3.so"} <= files


def test_the_stub_is_what_the_native_part_has(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "mypy.stubtest", "--allowlist", str(ALLOWED), "semel._native"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_see_what_is_installed() -> None:
    """Were the sources on the path instead, a file missing in the wheel would not be missed."""
    is_editable = json.loads(PACKAGE.read_text("direct_url.json") or "{}").get("dir_info", {})
    if is_editable.get("editable"):
        pytest.skip("installed by `maturin develop`: the sources are what is installed")
    assert Path(semel.__file__).is_relative_to(sys.prefix)


def test_pydantic_is_all_that_it_needs() -> None:
    assert PACKAGE.requires == ["pydantic>=2"]
    assert PACKAGE.version == semel.__version__


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).parent / "semel"
    for line in ([command], [sys.executable, "-m", "semel"]):
        done = subprocess.run([*line, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["semel", semel.__version__]


def test_every_public_name_says_what_it_is() -> None:
    public = [name for name in semel.__all__ if name != "__version__"]
    assert len(public) > 40
    constants = {"at_most_once", "conditional", "harmless"}
    silent = [
        name
        for name in public
        if name not in constants and not inspect.getdoc(getattr(semel, name))
    ]
    assert silent == []


def test_import_is_quick_because_pydantic_waits() -> None:
    code = "import sys, semel; print([name for name in sys.modules if name == 'pydantic'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
