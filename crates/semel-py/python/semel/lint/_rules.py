"""The rules: each has a code and a name that never change their meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Rule:
    """One rule. `docs/lint.md` has a section for each."""

    code: str
    name: str
    level: Level
    better: str
    """What to do instead, where nothing more exact is known."""


_STABLE = "use what the business calls this wish: a request, order or event id that came with it"

_ALL = [
    Rule("SML001", "key-from-time", "error", _STABLE),
    Rule("SML002", "key-from-chance", "error", _STABLE),
    Rule("SML003", "key-from-attempt", "error", "leave the attempt out: all of them are one wish"),
    Rule("SML004", "key-from-worker", "error", _STABLE),
    Rule("SML005", "key-from-model", "error", "use the id of what the model was asked about"),
    Rule("SML006", "key-from-memory", "error", _STABLE),
    Rule("SML007", "key-from-order", "error", "sort it first: `sorted(…)`"),
    Rule("SML008", "key-from-approval", "error", "make the key before the question, and keep it"),
    Rule("SML009", "key-too-broad", "error", "add the id of the request, order or event"),
    Rule("SML010", "key-too-narrow", "error", _STABLE),
    Rule("SML011", "start-without-key", "warning", "pass `key=`, such as the id of the event"),
    Rule("SML020", "retries-off", "warning", "leave `retries=` out: repeats are safe here"),
    Rule(
        "SML021",
        "retries-beyond-window",
        "error",
        "let the last retry come before the keys are forgotten",
    ),
    Rule(
        "SML022",
        "contract-undeclared",
        "info",
        "say `contract=`; `at_most_once` if the destination offers nothing",
    ),
    Rule(
        "SML023",
        "native-key-not-passed-on",
        "error",
        "send `semel.intent().downstream_key`, or use `semel.httpx`",
    ),
    Rule("SML024", "fingerprint-needed", "warning", "name what counts by `fingerprint=[…]`"),
    Rule("SML030", "empty-receipt", "warning", "return the id that the destination answered"),
    Rule("SML031", "answer-not-kept", "warning", "return what the destination answered"),
    Rule("SML032", "two-writes", "error", "give each write an effect of its own"),
    Rule(
        "SML033",
        "check-then-act",
        "error",
        "make the write an @effect with `contract=probe(look)`",
    ),
    Rule("SML034", "act-then-check", "error", "make the write an @effect: the ledger asks first"),
    Rule(
        "SML035",
        "call-after-write",
        "warning",
        "end the effect with its write; do the rest in a step, or in an effect of its own",
    ),
    Rule(
        "SML036",
        "retries-around-write",
        "warning",
        "let Semel retry: `retries=` on the effect, and none below it",
    ),
    Rule("SML040", "write-outside-effect", "error", "move the write into an @effect with a key"),
    Rule("SML041", "effect-outside-step", "error", "call it by `await ctx.step(…)`"),
    Rule("SML042", "model-not-marked", "warning", "put it into an @model and call it by ctx.step"),
    Rule("SML043", "foreign-await", "error", "use ctx.sleep, or do it in a step"),
    Rule("SML044", "unstable-body", "error", "use ctx.now(), ctx.random() or ctx.uuid()"),
    Rule("SML045", "not-awaited", "error", "write `await` before it"),
    Rule("SML090", "not-python", "error", "mend the file"),
    Rule("SML091", "allowed-without-reason", "error", "say why, behind the bracket"),
    Rule("SML092", "allows-nothing", "warning", "remove the comment"),
]

RULES = {rule.code: rule for rule in _ALL}
BY_NAME = {rule.name: rule for rule in _ALL}
