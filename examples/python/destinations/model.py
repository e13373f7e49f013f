"""A model over HTTP that answers by rule: it classifies, and it plays an agent that is unsure."""

from __future__ import annotations

from typing import Any

from destinations.http import Answer, HttpDestination, Request

SAME_WISH_IN_OTHER_WORDS = [
    "The printer is on fire",
    "Fire in the printer, please send somebody",
    "Urgent: burning printer",
]


class Model(HttpDestination):
    """Each answer costs: `applied` counts the answers that were paid for."""

    name = "model"

    def apply(self, request: Request) -> Answer:
        question = request.json()
        self.book.applied("answer", subject=question.get("subject"))
        if request.path == "/classify":
            return Answer(200, classify(f"{question['subject']} {question['text']}"))
        if request.path == "/chat":
            return Answer(200, next_message(question["messages"]))
        return Answer(404, {"error": "not_found"})


def classify(text: str) -> dict[str, Any]:
    """What a model would say of a request."""
    urgent = "fire" in text.lower()
    return {"category": "hardware" if urgent else "question", "urgent": urgent}


def next_message(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The next words of an agent that asks for a ticket until it has seen it twice."""
    answers = [message for message in messages if message["role"] == "tool"]
    tickets = [answer for answer in answers if '"id"' in answer["content"]]
    if len(tickets) >= 2 or len(answers) >= 8:
        return {"role": "assistant", "content": "There is a ticket.", "tool_calls": []}
    words = SAME_WISH_IN_OTHER_WORDS[len(answers) % len(SAME_WISH_IN_OTHER_WORDS)]
    call = {"id": f"call-{len(answers)}", "name": "open_ticket", "arguments": {"subject": words}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
