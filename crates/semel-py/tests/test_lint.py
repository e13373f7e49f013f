"""`semel lint`: what it finds, and what it leaves alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lint_clean import CLEAN
from lint_kit import PRELUDE, look, marks
from lint_sins import SINS
from lint_sins_code import CODE_SINS
from lint_sins_keys import KEY_SINS
from semel.lint import RULES, Finding, check_files, check_text

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# The unprotected twins of the examples stand beside them, without marks: they are for `check`.
TWINS = sorted((HERE / "bad").glob("twin_*.py"))
BAD = [path for path in sorted((HERE / "bad").glob("*.py")) if path not in TWINS]
# The sins that each must have a workflow of its own.
NAMED = """
    timestamp_key uuid_key key_from_model attempt_in_key worker_local_key key_too_broad
    whole_payload_key effect_outside_a_step result_not_stored approval_resets_the_key
    retries_beyond_retention check_then_act effect_before_check retries_off
    two_writes_in_one_effect native_key_not_passed_on uncached_model_call
"""


def serious(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.level != "info"]


def places(findings: list[Finding]) -> set[tuple[str, int]]:
    return {(one.code, one.line) for one in findings}


def test_every_sin_that_is_named_has_a_workflow() -> None:
    assert set(NAMED.split()) <= {path.stem for path in BAD}


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_workflow_is_found_at_its_line_and_for_nothing_else(path: Path) -> None:
    text = path.read_text()
    wanted = marks(text)
    said = text.splitlines()[0].removeprefix("# lint:").split()
    assert {code for code, _ in wanted} == set(said) != set()
    assert places(serious(check_files([path]).findings)) == wanted


@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.stem)
def test_the_writes_of_an_unprotected_twin_are_found(path: Path) -> None:
    assert {one.code for one in serious(check_files([path]).findings)} == {"SML040"}


@pytest.mark.parametrize("name", SINS)
def test_a_sin_is_found_however_it_is_hidden(name: str) -> None:
    before = len(PRELUDE.splitlines())
    wanted = {(code, line + before) for code, line in marks(SINS[name])}
    assert wanted
    assert places(look(SINS[name])) == wanted


@pytest.mark.parametrize("name", CLEAN)
def test_clean_code_that_looks_suspicious_is_left_alone(name: str) -> None:
    assert look(CLEAN[name]) == []


def test_req_k4_keys_of_time_and_chance_are_found_before_anything_runs() -> None:
    codes = {code for text in KEY_SINS.values() for code, _ in marks(text)}
    assert {"SML001", "SML002", "SML003", "SML004", "SML005", "SML006", "SML007"} <= codes
    (finding,) = serious(check_files([HERE / "bad" / "uuid_behind_a_helper.py"]).findings)
    way = "request_id <- reference <- reference_of() <- reference <- new_id() <- uuid.uuid4()"
    assert finding.way == way
    assert finding.action == "crm-ticket"


def test_req_l13_code_that_acts_first_and_asks_afterwards_is_found() -> None:
    (finding,) = serious(check_files([HERE / "bad" / "effect_before_check.py"]).findings)
    assert finding.code == "SML034"
    assert "only line 28 asks" in finding.reason
    acts = {code for text in CODE_SINS.values() for code, _ in marks(text)}
    assert {"SML033", "SML034", "SML040", "SML041"} <= acts


def test_a_helper_of_another_module_is_followed_and_the_call_is_blamed() -> None:
    (finding,) = serious(check_files([HERE / "bad" / "time_in_another_module.py"]).findings)
    assert "reference()" in (finding.way or "") and "stamp()" in (finding.way or "")
    assert finding.file.endswith("time_in_another_module.py")


def test_code_without_semel_is_looked_at_where_it_calls_code_with_it(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PRELUDE)
    caller = tmp_path / "routes.py"
    caller.write_text(
        "import uuid\nimport shop\n\n"
        "def opened(name):\n    return shop.create_ticket(name)\n\n"
        "def take():\n    return opened(uuid.uuid4().hex)\n"
    )
    (finding,) = check_files([caller]).findings
    assert (finding.code, finding.line) == ("SML002", 5)
    assert finding.way == "request_id <- uuid.uuid4()"


def test_a_package_is_imported_by_its_name_from_inside(tmp_path: Path) -> None:
    folder = tmp_path / "shop" / "flows"
    folder.mkdir(parents=True)
    for package in (tmp_path / "shop", folder):
        (package / "__init__.py").write_text("")
    (tmp_path / "shop" / "names.py").write_text(
        "import time\ndef name(): return str(time.time())\n"
    )
    flow = folder / "triage.py"
    flow.write_text(
        "from semel import Semel\nfrom shop.names import name\n"
        "def go(app: Semel):\n    app.start('triage', key=name())\n"
    )
    (finding,) = check_files([flow]).findings
    assert (finding.code, finding.line, finding.way) == ("SML001", 4, "name() <- time.time()")


def test_a_write_in_a_module_that_was_not_asked_for_is_shown_where_it_is_called(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(
        "import httpx\n\ndef save(order_id):\n    httpx.post('http://x', json={})\n"
    )
    caller = tmp_path / "app.py"
    caller.write_text(
        "import shop\nfrom semel import function\n\n"
        "@function\ndef step(order_id):\n    shop.save(order_id)\n"
    )
    (finding,) = check_files([caller]).findings
    assert (finding.code, finding.line) == ("SML040", 6)
    assert "by way of save()" in finding.reason


def test_what_replays_repeat_is_flagged_in_its_own_words() -> None:
    (finding,) = serious(check_files([HERE / "bad" / "replayed_uuid_key.py"]).findings)
    assert "the same in every replay" in finding.reason


def test_the_better_key_is_named() -> None:
    (finding,) = serious(check_files([HERE / "bad" / "key_too_broad.py"]).findings)
    assert finding.better == 'key="{request_id}"'
    (finding,) = serious(check_files([HERE / "bad" / "model_words_in_the_fingerprint.py"]).findings)
    assert finding.better == 'declare fingerprint=["request_id"]'


def test_the_examples_raise_nothing() -> None:
    checked = check_files([ROOT / "examples" / "python"])
    assert serious(checked.findings) == []
    assert checked.files > 30
    undeclared = {one.action for one in checked.findings}
    assert {one.code for one in checked.findings} == {"SML022"} and "ack-mail" in undeclared


def test_the_manuals_are_clean_and_read_without_trouble() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    blocks = [
        (page.name, code)
        for page in pages
        if page.name != "lint.md"
        for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    ]
    assert len(blocks) > 12
    found = {
        (name, one.code, one.line)
        for name, code in blocks
        for one in serious(check_text("from semel import *\n" + code))
        if one.code != "SML090"  # a piece of a body is no module
    }
    assert found == set()


def test_nothing_makes_it_fail() -> None:
    own = ROOT / "crates" / "semel-py"
    for folder, least in ((own / "tests", 60), (own / "python" / "semel" / "lint", 20)):
        checked = check_files([folder])
        assert checked.files > least
        assert not [one for one in checked.findings if one.code == "SML090"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def broken(:\n", 1),
        ("x = 1\n  y = 2\n", 2),
        ("print 'no'\n", 1),
        ("\0", 1),
    ],
)
def test_what_is_no_python_is_a_finding(code: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(code)
    (finding,) = check_files([path]).findings
    assert (finding.code, finding.line) == ("SML090", line)


def test_a_file_in_another_encoding_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_bytes(b"x = '\xff\xfe'\n")
    assert [one.code for one in check_files([path]).findings] == ["SML090"]


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "(" * 80 + "1" + ")" * 80,
        "x = " + "+".join(["1"] * 600),
        "def f(a):\n    return f(f(a))\nf(1)\n",
        "from app import *\nimport app.app\nfrom . import app\n",
        "class A(A): pass\nA().x.y[0](*1, **2)\n",
        "match x:\n    case {'a': [1, *r], **k} if r: pass\n    case A(b=1) | None: pass\n",
        "async def f():\n    async for x in y: yield await x\n    return\n",
        "lambda *a, k=1, **d: (yield)\n",
        "try:\n    pass\nexcept (A, B) as e:\n    raise X from e\nelse:\n    y\nfinally:\n    z\n",
        "for x.y[z], *w in q:\n    x += 1\n    del x\nelse:\n    while True: break\n",
        "@effect(key=1, **x)\ndef f(): ...\n@effect\ndef g(): ...\n",
        "@effect('a', key='{')\ndef h(): ...\n@effect('b', key=['{a.b.c}', 1])\ndef i(): ...\n",
    ],
)
def test_odd_code_is_read_without_trouble(code: str) -> None:
    header = "from semel import effect, workflow\n"
    assert [one for one in check_text(header + code) if one.code == "SML090"] == []


ALLOWED = """
def take(event_id: str) -> dict:
    {above}
    return create_ticket(str(uuid.uuid4())){beside}
"""


@pytest.mark.parametrize(
    ("above", "beside", "codes"),
    [
        ("pass", "", ["SML002"]),
        ("pass", "  # semel: allow(SML002) one ticket per click is meant", []),
        ("# semel: allow(SML002) one ticket per click is meant", "", []),
        ("# semel: allow(key-from-chance): one ticket per click", "", []),
        ("# semel: allow(SML001, SML002) one ticket per click", "", ["SML092"]),
        ("pass", "  # semel: allow(SML002)", ["SML002", "SML091"]),
        ("# semel: allow(SML002)", "", ["SML002", "SML091"]),
        ("pass", "  # semel: allow(SML001) the wrong one", ["SML002", "SML092"]),
        ("pass", "  # semel: allow(SML777) no such rule", ["SML002", "SML092"]),
        ("x = '# semel: allow(SML002) in a text'", "", ["SML002"]),
        ("# semel: allow(SML002) about another line\n    pass", "", ["SML002", "SML092"]),
    ],
)
def test_a_finding_is_allowed_with_a_reason(above: str, beside: str, codes: list[str]) -> None:
    found = look(ALLOWED.format(above=above, beside=beside))
    assert sorted(one.code for one in found) == codes


def test_every_rule_has_a_section_and_a_workflow_or_a_snippet() -> None:
    page = (ROOT / "docs" / "lint.md").read_text()
    for rule in RULES.values():
        assert f"### {rule.code} {rule.name}\n" in page
    texts = [*SINS.values(), *(path.read_text() for path in BAD)]
    shown = {code for text in texts for code, _ in marks(text)}
    assert set(RULES) - shown == {"SML022", "SML090", "SML091", "SML092"}


def test_the_page_says_bad_and_better_and_both_are_so() -> None:
    page = (ROOT / "docs" / "lint.md").read_text()
    sections = re.split(r"^### (SML\d+) .*$", page, flags=re.M)[1:]
    looked = 0
    for code, text in zip(sections[::2], sections[1::2], strict=True):
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        if len(blocks) == 2:
            bad, better = blocks
            assert code in {one.code for one in check_text(PRELUDE + bad)}, code
            assert code not in {one.code for one in check_text(PRELUDE + better)}, code
            looked += 1
    assert looked >= 24


def test_the_linter_imports_nothing_of_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("import sys\nprint('ran')\nsys.exit(9)\n")
    line = [sys.executable, "-m", "semel", "lint", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
