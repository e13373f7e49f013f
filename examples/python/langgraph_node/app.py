"""A LangGraph node that is run again after an interrupt: its effect is not."""

# LangGraph's own types are unknown in places.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import os
import sys
from typing import TypedDict

import semel.httpx
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from semel import Semel, effect, native_key

CRM = os.environ["CRM_URL"]


class Ticket(BaseModel):
    """A ticket, as the CRM answers."""

    id: str
    reference: str


class Question(TypedDict):
    """What the graph is asked."""

    case_id: str


class Case(Question, total=False):
    """The state of the graph."""

    ticket_id: str
    reviewer: str


@effect(
    "crm-ticket",
    key="{case_id}",
    contract=native_key(retention="24h"),
    lease=os.environ.get("LEASE"),
)
def open_ticket(case_id: str) -> Ticket:
    """Opens the ticket; the client passes the key on."""
    with semel.httpx.Client(base_url=CRM, timeout=20) as crm:
        answer = crm.post("/tickets", json={"reference": case_id})
    return Ticket.model_validate(answer.raise_for_status().json())


def review(state: Case) -> Case:
    """LangGraph starts a node from its top when it is resumed, so this opens a ticket twice."""
    ticket = open_ticket(state["case_id"])
    reviewer = interrupt({"please review": ticket.id})
    return {"case_id": state["case_id"], "ticket_id": ticket.id, "reviewer": reviewer}


def build() -> StateGraph[Case]:
    """A graph of one node."""
    graph = StateGraph(Case)
    graph.add_node("review", review)
    graph.add_edge(START, "review")
    graph.add_edge("review", END)
    return graph


def main() -> None:
    """Lets each case run into its interrupt, and resumes it."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    graph = build().compile(checkpointer=InMemorySaver())
    outcome: dict[str, list[object]] = {}
    for case_id in sys.argv[1:] or ["case-42"]:
        thread: RunnableConfig = {"configurable": {"thread_id": case_id}}
        asked = graph.invoke({"case_id": case_id}, thread)["__interrupt__"][0].value
        done = graph.invoke(Command(resume="ada"), thread)
        outcome[case_id] = [{"id": asked["please review"]}, {"id": done["ticket_id"]}]
    print(json.dumps(outcome))
    app.close()


if __name__ == "__main__":
    main()
