"""`semel lint` as a person at a terminal, or a build server, has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from semel._commands import python_command

BAD = Path(__file__).parent / "bad"


def lint(*words: str) -> int:
    command = python_command(["lint", *words])
    assert command is not None
    return command(["lint", *words])


def test_a_finding_has_its_place_its_reason_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    path = BAD / "uuid_key.py"
    assert lint(str(path)) == 1
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith(f"{path}:26:44: SML002 the key of crm-ticket is made by chance")
    assert first.endswith("request_id <- uuid.uuid4() [key-from-chance]")
    assert second.startswith("  hint: ")
    assert err == "lint: 1 finding in 1 file; docs/lint.md explains each code\n"


def test_a_clean_file_is_zero(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    assert lint(str(tmp_path)) == 0
    assert capsys.readouterr() == ("", "lint: 1 file, nothing found\n")


def test_json_has_all_members(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("--json", str(BAD / "key_too_broad.py"), str(BAD / "retries_off.py")) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["checked"] == 2
    broad, off = said["findings"]
    assert broad["code"], broad["name"] == ("SML009", "key-too-broad")
    assert broad["line"] == 14 and broad["file"].endswith("key_too_broad.py")
    assert broad["action"] == "crm-ticket" and broad["better"] == 'key="{request_id}"'
    assert set(off) == {
        *("code", "name", "level", "file", "line", "column", "action", "reason", "better", "way")
    }


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["--select", "SML002"], ["SML002"]),
        (["--select", "key-from-chance"], ["SML002"]),
        (["--select", "SML02"], ["SML023"]),
        (["--ignore", "SML002"], ["SML023"]),
        (["--ignore", "SML002,SML023"], []),
        (["--select", "SML0", "--ignore", "native-key-not-passed-on"], ["SML002"]),
    ],
)
def test_codes_are_selected_and_ignored(
    words: list[str], codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(*words, "--json", str(BAD / "foreign_idempotency_key.py")) == bool(codes)
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [one["code"] for one in found] == codes


def test_what_is_only_worth_knowing_is_shown_on_demand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "app.py"
    path.write_text(
        "from semel import at_most_once, effect\n"
        "@effect('a', key='{order_id}')\ndef a(order_id: str) -> str: ...\n"
        "@effect('b', key='{order_id}', contract=at_most_once)\ndef b(order_id: str) -> str: ...\n"
    )
    assert lint(str(path)) == 0
    assert capsys.readouterr().out == ""
    assert lint("--all", str(path)) == 0
    out = capsys.readouterr().out
    assert "SML022" in out and out.count("hint:") == 1


def test_a_missing_file_is_three_and_a_wrong_word_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("nowhere.py") == 3
    assert capsys.readouterr().err == "error: there is no file nowhere.py\n"
    for words in ([], ["--select", "SML777", "x.py"], ["--what", "x.py"]):
        with pytest.raises(SystemExit) as ended:
            lint(*words)
        assert ended.value.code == 2


def test_folders_are_searched_without_what_was_installed_into_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sin = (BAD / "uuid_key.py").read_text()
    for folder in ("shop", "env/lib", ".hidden", "node_modules/x", "shop/__pycache__"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "app.py").write_text(sin)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert lint("--json", str(tmp_path)) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["checked"] == 1
    assert [Path(one["file"]).parent.name for one in said["findings"]] == ["shop"]
