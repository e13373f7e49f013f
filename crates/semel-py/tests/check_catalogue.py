"""How each example is checked: its input, its destinations, and the twin without protection."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.check import Report, check_workflow

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"
BAD = Path(__file__).parent / "bad"


@dataclass(frozen=True)
class Checked:
    """One example, as `semel check` sees it."""

    name: str
    workflow: str
    doubles: dict[str, str] = field(default_factory=dict)
    """A mode, or a script in the example's folder `check`."""
    counter: str | None = None
    """Destinations that no double stands in for."""
    key: tuple[str, ...] = ("check",)
    ends: str = "done"
    """How the example ends undisturbed. The twins take nothing back, so they are done."""

    @property
    def folder(self) -> Path:
        """Where its input and its scripts lie."""
        return EXAMPLES / self.name / "check"

    def check(self, budget: str | None) -> Report:
        """Checks the example itself."""
        target = f"{EXAMPLES / self.name / 'app.py'}:{self.workflow}"
        return self._check(target, budget, self.ends)

    def check_twin(self, budget: str | None) -> Report:
        """Checks the same flow with plain steps in the place of effects."""
        # Most have one workflow, which need not be named.
        name = self.workflow if self.name == "vendor_research" else ""
        return self._check(f"{BAD / f'twin_{self.name}.py'}:{name}", budget)

    def _check(self, target: str, budget: str | None, ends: str = "done") -> Report:
        respond = self.folder / "respond.json"
        counter = None
        if self.counter is not None:
            counter = f"{EXAMPLES / 'check_destinations.py'}:{self.counter}"
        return check_workflow(
            target,
            read(self.folder / "in.json"),
            key=self.key,
            doubles={name: self._script(kind) for name, kind in self.doubles.items()},
            counter=counter,
            respond=read(respond) if respond.exists() else None,
            budget=budget,
            ends=ends,
        )

    def _script(self, kind: str) -> str:
        return str(self.folder / kind) if kind.endswith(".json") else kind


def read(file: Path) -> Any:
    """A file of JSON."""
    return json.loads(file.read_text())


CHECKED = [
    Checked("triage", "triage", {"MODEL_URL": "model.json", "CRM_URL": "keys"}, "smtp"),
    Checked("stripe_charge", "charge", {"STRIPE_URL": "stripe.json"}),
    Checked("saga_order", "order", {"SHOP_URL": "shop.json"}, ends="failed"),
    Checked("refund_approval", "refund", {"STRIPE_URL": "stripe.json"}),
    Checked("nurture_mail", "nurture", counter="smtp"),
    Checked("long_agent", "investigate", {"AGENT_URL": "keys", "CRM_URL": "keys"}),
    Checked("protect_one_function", "open_ticket", {"CRM_URL": "keys"}),
    Checked("publish", "publish", {"CMS_URL": "cms.json"}),
    Checked("slack_post", "announce", {"SLACK_URL": "slack.json"}),
    Checked("typeform_hubspot", "keep_contact", counter="hubspot"),
    Checked("record_update", "deposit", counter="records"),
    Checked("two_agents_one_ticket", "act", counter="records"),
    Checked("queue_consumer", "open_ticket", {"CRM_URL": "keys", "QUEUE_URL": "plain"}),
    Checked("agent_tools", "open_ticket", {"CRM_URL": "keys", "MODEL_URL": "model"}),
    Checked("langgraph_node", "open_ticket", {"CRM_URL": "keys"}),
    Checked(
        "nightly_report",
        "report",
        {"CMS_URL": "cms.json"},
        key=("nightly", "2026-11-16T02:00:00Z"),
    ),
    Checked("vendor_research", "compare", counter="vendors_cms"),
]


def main(names: list[str]) -> None:
    """Prints the whole report of some examples, or of all, and how a few cases fail the twin."""
    for one in CHECKED:
        if not names or one.name in names:
            print(f"== {one.name}")
            print(one.check(None))
            print(one.check_twin("8").summary)


if __name__ == "__main__":
    main(sys.argv[1:])
