"""The Postgres that the tests may use. That there is none is a failure, unless somebody says so."""

from __future__ import annotations

import os

import pytest

SERVER_VARIABLE = "SEMEL_TEST_POSTGRES"
SKIP_VARIABLE = "SEMEL_TEST_POSTGRES_SKIP"


def postgres_server() -> str:
    """The address of the server; `cargo xtask postgres -- …` starts one and names it."""
    server = os.environ.get(SERVER_VARIABLE)
    if server:
        return server
    if os.environ.get(SKIP_VARIABLE) == "1":
        pytest.skip(f"{SKIP_VARIABLE}=1")
    pytest.fail(f"{SERVER_VARIABLE} names no server: run `cargo xtask postgres -- …`")
