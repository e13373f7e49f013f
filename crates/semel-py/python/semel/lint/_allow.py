"""Comments that allow a finding: `# semel: allow(SML002) one ticket per click is meant`."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

from ._frame import Finding
from ._project import Module
from ._rules import BY_NAME, RULES

_COMMENT = re.compile(r"#\s*semel:\s*allow\(\s*(?P<codes>[^)]*)\)\s*(?P<reason>.*)\Z")


@dataclass
class Allowance:
    """One such comment."""

    line: int
    column: int
    codes: list[str]
    reason: str
    is_alone: bool
    """Whether nothing else is on its line: then it is about the next one."""
    used: set[str] = field(default_factory=set[str])


def allowances(module: Module) -> list[Allowance]:
    """The allowances of a file."""
    found: list[Allowance] = []
    if not any("semel:" in line for line in module.lines):
        return found
    text = "\n".join(module.lines) + "\n"
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
            if match is not None:
                line, column = token.start
                is_alone = not module.lines[line - 1][:column].strip()
                codes = [_code(one.strip()) for one in match["codes"].split(",")]
                reason = match["reason"].strip(" :-\t")
                found.append(Allowance(line, column + 1, codes, reason, is_alone))
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def _code(word: str) -> str:
    rule = BY_NAME.get(word.lower())
    return word.upper() if rule is None else rule.code


def without_allowed(
    module: Module, findings: list[Finding], is_asked: object = None
) -> list[Finding]:
    """The findings of a file that nothing allows, and what is wrong with the allowances."""
    allowed = allowances(module)
    left = [one for one in findings if not _is_allowed(module, one, allowed)]
    for one in allowed:
        left += _judge(module, one)
    return left


def _is_allowed(module: Module, finding: Finding, allowed: list[Allowance]) -> bool:
    is_so = False
    for one in allowed:
        about = _next_code(module, one.line) if one.is_alone else one.line
        if about == finding.line and finding.code in one.codes:
            one.used.add(finding.code)
            is_so = is_so or bool(one.reason)
    return is_so


def _next_code(module: Module, line: int) -> int:
    """The line that a comment on a line of its own is about: the next that is no comment."""
    while line < len(module.lines) and module.lines[line].lstrip().startswith("#"):
        line += 1
    return line + 1


def _judge(module: Module, one: Allowance) -> list[Finding]:
    def finding(code: str, reason: str) -> Finding:
        return Finding(code, module.shown, one.line, one.column, reason, RULES[code].better)

    found: list[Finding] = []
    unknown = [code for code in one.codes if code not in RULES]
    if unknown:
        found.append(finding("SML092", f"there is no rule {', '.join(unknown) or 'named here'}"))
    if not one.reason:
        found.append(finding("SML091", f"{', '.join(one.codes)} is allowed here without a reason"))
    idle = [code for code in one.codes if code in RULES and code not in one.used]
    if idle:
        found.append(finding("SML092", f"{', '.join(idle)} is allowed here, and nothing raises it"))
    return found
