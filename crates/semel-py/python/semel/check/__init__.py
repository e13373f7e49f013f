"""`semel check`: crashes a workflow at every point and counts at its destinations.

The command is `semel check app.py:workflow --input in.json`; tests use the fixture `semel_check` of
the pytest plugin, or `check_workflow`."""

from ._api import check_workflow
from ._report import Report

__all__ = ["Report", "check_workflow"]
