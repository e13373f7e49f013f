"""The plugin of pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from check_apps import BAD, COUNTER, GOOD

pytest_plugins = ["pytester"]

WITH = 'counter="count.py:count", respond={"go": {"word": "now"}}'


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(good=GOOD, bad=BAD, count=COUNTER)
    return pytester


def test_the_fixture_and_the_mark_check_workflows(folder: pytest.Pytester) -> None:
    folder.makepyfile(
        f"""
        import pytest

        def test_good(semel_check):
            semel_check("good.py:week", 1, {WITH}).assert_ok()

        def test_bad(semel_check):
            report = semel_check("bad.py:plain", 1, budget=1, {WITH})
            assert report.outcomes == {{"twice": 1}}
            report.assert_ok()

        @pytest.mark.semel_check("good.py:week", 1, {WITH})
        def test_marked(semel_report):
            assert semel_report.outcomes == {{"once": 2}}

        @pytest.mark.semel_check(workflow="bad.py:plain", input=1, {WITH})
        def test_marked_alone():
            pass
        """
    )
    result = folder.runpytest_subprocess("--semel-budget", "2", "--strict-markers")
    result.assert_outcomes(passed=2, failed=1, errors=1)
    # The failure shows the table and the way to play it again.
    again = "*again: pytest '*::test_bad' --semel-only 'kill before step send'"
    result.stdout.fnmatch_lines(["*!twice*", again])


def test_a_report_without_a_mark_is_refused(folder: pytest.Pytester) -> None:
    folder.makepyfile("def test_it(semel_report): pass")
    result = folder.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*semel_report needs the mark semel_check*"])


def test_unused_it_imports_nothing(tmp_path: Path) -> None:
    """Whoever has semel installed does not wait for it in every test run."""
    test = tmp_path / "test_it.py"
    test.write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'semel.pytest_plugin' in sys.modules\n"
        "    loaded = {name for name in sys.modules if name.startswith('semel')}\n"
        "    assert loaded == {'semel', 'semel.pytest_plugin'}\n"
    )
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
