"""A declared secret, in whatever form Python's own libraries write it, reaches neither the store
nor what is shown of it."""

from __future__ import annotations

import base64
import html
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

SECRET = "wJalr/XUtn\"FEMI'K7 MD+zq&bPx<Rfi%CY=é"

FORMS = {
    "plain": SECRET,
    "quote": quote(SECRET),
    "quote_plus": quote_plus(SECRET),
    "urlencode": urlencode({"key": SECRET}),
    "percent": "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    "repr": repr(SECRET),
    "repr of an exception": repr(KeyError(SECRET)),
    "bytes": repr(SECRET.encode()),
    "ascii": ascii(SECRET),
    "json": json.dumps(SECRET),
    "json in json": json.dumps(json.dumps({"key": SECRET})),
    "html": html.escape(SECRET),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64url": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "mime": base64.encodebytes(b"a line before it, " * 9 + SECRET.encode()).decode(),
    "credentials": base64.b64encode(json.dumps({"private_key": SECRET}).encode()).decode(),
    "basic": "Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode(),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
}

APP = """
import sys
import time
import test_secrets as t
from semel import Semel, WorkflowContext, effect, function, workflow, Retry, Refused

@function
def tell(n: str) -> dict[str, str]:
    return dict(t.FORMS)

@function(retries=1)
def fails(n: str) -> str:
    raise ValueError(*t.FORMS.values())

@effect("send", key="{n}", retries=Retry(attempts=1))
def send(n: str, header: dict[str, str]) -> dict[str, str]:
    return dict(t.FORMS)

@effect("refused", key="{n}", retries=Retry(attempts=1))
def refused(n: str) -> str:
    raise Refused(" | ".join(t.FORMS.values()))

@effect("unknown", key="{n}", retries=Retry(attempts=1))
def unknown(n: str) -> str:
    raise RuntimeError(*t.FORMS.values())

@workflow
async def told(ctx: WorkflowContext, given: dict[str, str]) -> dict[str, str]:
    await ctx.step(tell, "1")
    await ctx.step(send, "1", given)
    go = await ctx.wait_for_signal("go")
    return {"go": str(go)} | t.FORMS

@workflow
async def step_raises(ctx: WorkflowContext) -> None:
    await ctx.step(fails, "1")

@workflow
async def body_raises(ctx: WorkflowContext) -> None:
    raise LookupError(*t.FORMS.values())

def until_it_stands(run):
    while run.status()["state"] not in ("done", "failed", "paused"):
        time.sleep(0.02)

with Semel(sys.argv[1]) as app:
    one = app.start(told, dict(t.FORMS), key="1")
    one.signal("go", dict(t.FORMS))
    until_it_stands(one)
    for workflow in (step_raises, body_raises):
        until_it_stands(app.start(workflow, key="1"))
    for call in (refused, unknown):
        try:
            call("1")
        except Exception as error:
            print("raised", type(error).__name__)
"""


def _semel(folder: Path, *words: str) -> str:
    environment = {**os.environ, "AWS_KEY": SECRET, "SEMEL_SECRETS": "env:AWS_KEY"}
    command = [sys.executable, "-m", "semel", "--store", f"sqlite:{folder}/semel.db", *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return ended.stdout + ended.stderr


def test_inv_i23_a_secret_in_any_form_reaches_no_place_that_python_writes(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    environment = {
        **os.environ,
        "AWS_KEY": SECRET,
        "SEMEL_SECRETS": "env:AWS_KEY",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    program = [sys.executable, str(tmp_path / "app.py"), f"sqlite:{tmp_path}/semel.db"]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=150)
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "app.py").unlink()
    said = "".join(
        _semel(tmp_path, *words)
        for words in (
            ("runs", "show", "told/1", "--json"),
            ("runs", "show", "step_raises/1"),
            ("runs", "show", "body_raises/1", "--json"),
            ("effects", "show", "send/1", "--json"),
            ("effects", "show", "refused/1"),
            ("proof", "told/1"),
            ("proof", "step_raises/1", "--json"),
            ("proof", "unknown/1"),
            ("backup", f"{tmp_path}/all.semel"),
        )
    )
    everything = said.encode() + b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )
    assert b"[redacted:AWS_KEY]" in everything
    for name, form in FORMS.items():
        parts = [form] if name != "mime" else form.splitlines()[-2:]
        for part in parts:
            for written in (
                part,
                json.dumps(part)[1:-1],
                json.dumps(part, ensure_ascii=False)[1:-1],
            ):
                assert written.encode() not in everything, f"{name}: {written}"
    assert b"wJalr/XUtn" not in everything, "the beginning of it"
