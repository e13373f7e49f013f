"""A program with another key file is refused when it opens the store."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from semel import Semel, SemelError, effect


def key_file(path: Path, key_id: str, byte: int) -> str:
    path.write_text(f"{key_id}: {base64.b64encode(bytes([byte] * 32)).decode()}\n")
    path.chmod(0o600)
    return os.fspath(path)


@effect("mail", key="{order}")
def mail(order: str) -> str:
    return f"sent {order}"


def test_sec_33_another_key_file_is_refused_at_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:{tmp_path}/semel.db"
    right = key_file(tmp_path / "right", "key-1", 1)
    monkeypatch.setenv("SEMEL_KEY_FILE", right)
    with Semel(store):
        assert mail("1") == "sent 1"
    for key_id in ("key-1", "key-2"):
        monkeypatch.setenv("SEMEL_KEY_FILE", key_file(tmp_path / "wrong", key_id, 2))
        with pytest.raises(SemelError) as caught, Semel(store):
            mail("2")
        assert caught.value.code == "encryption_key_mismatch"
    monkeypatch.setenv("SEMEL_KEY_FILE", right)
    with Semel(store):
        assert mail("1") == "sent 1"
