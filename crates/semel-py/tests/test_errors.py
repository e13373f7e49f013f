"""Errors: stable codes with a page each, and words that say what to do."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest
import semel
from semel import _errors
from semel._errors import SemelError, describe, from_native, rebuild, text

PAGES = Path(__file__).parents[3] / "docs" / "errors"
SOURCES = Path(inspect.getfile(semel)).parent


def classes() -> list[type[SemelError]]:
    found = [one for one in vars(_errors).values() if inspect.isclass(one)]
    return [one for one in found if issubclass(one, SemelError)]


def codes() -> set[str]:
    """Every code that the package itself names."""
    named = {one.code for one in classes()}
    for path in SOURCES.rglob("*.py"):
        source = path.read_text()
        named.update(re.findall(r'code="(\w+)"', source))
        named.update(re.findall(r'port\.pause\("(\w+)"', source))
    return named


@pytest.mark.skipif(not PAGES.is_dir(), reason="the package is tested away from its documents")
def test_every_code_has_a_page() -> None:
    assert len(codes()) > 15, "the search finds them"
    missing = [code for code in codes() if not (PAGES / f"{code}.md").is_file()]
    assert missing == []


def test_every_class_has_a_code_of_its_own_and_is_exported() -> None:
    named = [one.code for one in classes()]
    assert len(named) == len(set(named))
    for one in classes():
        assert getattr(semel, one.__name__) is one
        assert one.__name__ in semel.__all__
        assert inspect.getdoc(one)


def test_an_error_says_its_code() -> None:
    for one in classes():
        error = one("what happened")
        assert str(error) == f"what happened ({one.code})"
        assert (error.detail, error.retry_after, error.trace) == ("what happened", None, None)
    assert SemelError("x", code="store_busy").code == "store_busy"
    assert SemelError().code == "internal"


def test_the_class_follows_the_code() -> None:
    for one in classes():
        found = from_native(one.code, "words", 1500)
        assert type(found) is one
        assert isinstance(found, SemelError)
        assert (found.code, found.detail, found.retry_after) == (one.code, "words", 1.5)
    unknown = from_native("of_a_newer_engine", "words")
    assert type(unknown) is SemelError
    assert unknown.code == "of_a_newer_engine"


def test_timeouts_are_timeouts() -> None:
    assert issubclass(semel.TimedOut, TimeoutError)


@pytest.mark.parametrize("one", classes(), ids=lambda one: one.__name__)
def test_errors_are_copied_and_pickled(one: type[SemelError]) -> None:
    error = one("words", code="its_own", retry_after=2.0)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is one
        assert (other.detail, other.code, other.retry_after) == ("words", "its_own", 2.0)


def test_the_journal_imports_nothing() -> None:
    import sys

    assert "antigravity" not in sys.modules
    assert rebuild(("antigravity:Flight", '{"args": [], "state": {}}', "trace")) is None
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "raised",
    [
        ("builtins:int", '{"args": [1], "state": {}}', ""),
        ("builtins:SystemExit", '{"args": [1], "state": {}}', ""),
        ("builtins:KeyboardInterrupt", '{"args": [], "state": {}}', ""),
        ("builtins:eval", '{"args": ["1"], "state": {}}', ""),
        ("os:system", '{"args": ["true"], "state": {}}', ""),
        ("subprocess:Popen", '{"args": ["true"], "state": {}}', ""),
        ("builtins:ValueError", "", ""),
        ("builtins:ValueError", "no json", ""),
        ("builtins:ValueError", "[]", ""),
        ("builtins:ValueError", '{"args": [1]}', ""),
        ("builtins:Nothing", '{"args": [], "state": {}}', ""),
        ("", '{"args": [], "state": {}}', ""),
        ("builtins:", '{"args": [], "state": {}}', ""),
    ],
)
def test_what_is_no_exception_is_not_built(raised: tuple[str, str, str]) -> None:
    assert rebuild(raised) is None


def test_an_exception_is_described() -> None:
    try:
        raise ValueError("words")
    except ValueError as error:
        kind, kept, trace = describe(error)
    assert (kind, kept) == ("builtins:ValueError", '{"args": ["words"], "state": {}}')
    assert trace.startswith("Traceback")
    assert "test_an_exception_is_described" in trace
    assert text(ValueError()) == "ValueError"
    assert text(ValueError("x")) == "ValueError: x"
    assert text(SemelError("x")) == "x"
    assert len(text(ValueError("x" * 10**6))) < 5_000


def test_a_name_that_is_none_is_refused_at_decoration() -> None:
    for name in (" ", "a/b", "x" * 200, "a\nb"):
        with pytest.raises(SemelError) as caught:
            semel.effect(name, key="{x}")(lambda x: x)
        assert caught.value.code == "name_invalid"
