"""Proofs, as data: the document that `semel proof verify` reads."""

from __future__ import annotations

import json
from typing import Any, TypedDict, cast


class Claim(TypedDict):
    """A sentence, and what it rests on."""

    says: str
    evidence: str


class _Verdict(TypedDict):
    finding: str
    says: str
    proven: list[Claim]
    not_proven: list[Claim]


class Verdict(_Verdict, total=False):
    """What follows from the evidence, and what does not. `finding` is one word: done, not_done,
    undone, told, expired, in_progress, in_doubt, disputed, twice or broken."""

    broken: list[Claim]


class _Statement(TypedDict):
    rules: int
    about: str
    name: str
    namespace: str
    at: str
    epoch: int
    verdict: Verdict
    effects: list[dict[str, Any]]


class Statement(_Statement, total=False):
    """What is proven about one effect, or about one run and its effects."""

    run: dict[str, Any]
    quarantine: dict[str, str]


class ProofBody(TypedDict):
    """The statement, and the records that it was built from."""

    statement: Statement
    evidence: dict[str, Any]


class Proof(TypedDict):
    """A proof. `digest` is taken over the canonical form of `proof`."""

    semel_proof: int
    proof: ProofBody
    digest: str


def read_proof(text: str) -> Proof:
    """A proof as the engine tells it."""
    return cast(Proof, json.loads(text))
