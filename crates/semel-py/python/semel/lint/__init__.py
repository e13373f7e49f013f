"""`semel lint`: finds workflows that are not safe to repeat, by reading their source."""

from __future__ import annotations

from ._check import check_files, check_text
from ._frame import Finding
from ._rules import RULES, Rule

__all__ = ["RULES", "Finding", "Rule", "check_files", "check_text"]
