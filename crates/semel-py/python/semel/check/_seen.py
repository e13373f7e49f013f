"""What lives and destinations tell, in the words that the rules of a check understand."""

from __future__ import annotations

import json
from typing import Any

from ._double import Request

Said = dict[str, Any]


def effects_of(look: Said) -> list[Said]:
    """The effects of a ledger."""
    return [_effect(one) for one in sorted(look["effects"], key=_name_of)]


def _name_of(effect: Said) -> tuple[str, str, int]:
    return effect["action"], effect["key"], effect["generation"]


def _effect(effect: Said) -> Said:
    attempts: list[Said] = effect["attempts"]
    receipt = effect.get("receipt")
    return {
        "action": effect["action"],
        "key": effect["key"],
        "generation": effect["generation"],
        "contract": effect.get("contract", {}).get("name", ""),
        "state": effect["state"],
        "downstream_key": effect.get("downstream_key", ""),
        "receipt": None if receipt is None else json.dumps(receipt, sort_keys=True),
        "key_not_used": any(one.get("key_not_used") for one in attempts),
        "applied_twice": any(one["kind"] == "applied_twice" for one in effect.get("alarms", [])),
        "attempts": [
            {
                "kind": one["kind"],
                "outcome": one["outcome"],
                "was_doubted": "doubted_at" in one or one["outcome"] == "unknown",
            }
            for one in attempts
        ],
    }


def run_of(said: Said) -> Said:
    """Where the run stands, as the last life saw it."""
    run = next(run for run in said["look"]["runs"] if run["id"] == said["run"])
    told: Said = {"state": run["state"], "result": said["result"]}
    if run.get("waits_on"):
        told["waits_on"] = run["waits_on"]
    paused, finished = run.get("paused"), run["entries"][-1].get("fault")
    fault = paused or finished
    if fault:
        told.update(code=fault["code"], detail=fault["detail"])
    return told


def one_result(runs: list[Said]) -> str | None:
    """What undisturbed runs came to, where that is always the same: only then is it compared."""
    results = {run.get("result") for run in runs}
    return results.pop() if len(results) == 1 else None


def is_strict(said: Said) -> bool:
    """Whether the run stays with its release for ever."""
    return any(run["id"] == said["run"] and run.get("strict") for run in said["look"]["runs"])


def requests_of(requests: list[Request]) -> list[Said]:
    """The requests of a case, named as what is counted at their destination."""
    return [{"route": f"{one.double} {one.route}", "key": one.key} for one in requests]


def waits_of(said: Said, kind: str) -> list[str]:
    """The names of what was answered."""
    return [name for what, name in said["answered"] if what == kind]
