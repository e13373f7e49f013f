"""The plugin of pytest: checks of workflows as tests.

    def test_triage(semel_check):
        semel_check("app.py:triage", inbound, doubles={"CRM_URL": "keys"}).assert_ok()

    @pytest.mark.semel_check("app.py:triage", inbound, doubles={"CRM_URL": "keys"})
    def test_triage_again(semel_report):
        assert semel_report.outcomes.keys() == {"once"}

Nothing of semel is imported before a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from .check import Report

_MARK = "semel_check"
_REPORT = "semel_report"


class Check(Protocol):
    """What the fixture `semel_check` is: `semel.check.check_workflow`."""

    def __call__(self, workflow: Any, input: Any = None, **options: Any) -> Report:
        """Checks a workflow and returns the report."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--semel-budget` and `--semel-only`."""
    parser.getgroup("semel").addoption(
        "--semel-budget",
        metavar="60s|CASES",
        help="how long each check of a workflow may take, or how many cases it tries",
    )
    parser.getgroup("semel").addoption(
        "--semel-only", metavar="CASE", help="play one case of each check, by its name"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    words = f"{_MARK}(workflow, input, ...): check a workflow; `{_REPORT}` is what it came to"
    config.addinivalue_line("markers", words)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test is a check, whether it takes the report or not."""
    for item in items:
        is_marked = item.get_closest_marker(_MARK) is not None
        if is_marked and isinstance(item, pytest.Function) and _REPORT not in item.fixturenames:
            item.fixturenames.append(_REPORT)


@pytest.fixture
def semel_check(request: pytest.FixtureRequest) -> Check:
    """Checks a workflow: `semel_check(workflow, input, doubles=…).assert_ok()`."""
    return _check_for(request)


@pytest.fixture
def semel_report(request: pytest.FixtureRequest) -> Report:
    """The report on the workflow that the mark `semel_check` names."""
    mark = request.node.get_closest_marker(_MARK)
    if mark is None:
        pytest.fail(f"{_REPORT} needs the mark {_MARK}", pytrace=False)
    report = _check_for(request)(*mark.args, **mark.kwargs)
    if _REPORT not in request.node._fixtureinfo.argnames:
        # Nobody looks at it: then it must be good.
        report.assert_ok()
    return report


def _check_for(request: pytest.FixtureRequest) -> Check:
    budget, only = (request.config.getoption(name) for name in ("--semel-budget", "--semel-only"))
    command = f"pytest '{request.node.nodeid}' --semel-only {{case}}"

    def check(workflow: Any, input: Any = None, **options: Any) -> Report:
        from .check import check_workflow

        usual: dict[str, Any] = {"budget": budget, "only": only, "command": command}
        usual.update({name: value for name, value in options.items() if value is not None})
        return check_workflow(workflow, input, **usual)

    return check
