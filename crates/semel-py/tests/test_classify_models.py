"""What errors of openai and anthropic prove; each is let happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from classify_kit import ANSWERS, at_full_backlog, at_nobody, at_provider, patience_s
from stand_ins import refusing_url

ASK: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
Call = Callable[..., Any]


def limits() -> dict[str, Any]:
    return {"api_key": "secret", "timeout": patience_s()}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both wait half a second or more between two tries."""
    for module in (openai, anthropic):
        monkeypatch.setattr(module._base_client, "INITIAL_RETRY_DELAY", 0.001)
        monkeypatch.setattr(module._base_client, "MAX_RETRY_DELAY", 0.001)


def with_openai(url: str, tries_more: int = 0) -> None:
    client = openai.OpenAI(base_url=url, max_retries=tries_more, **limits())
    client.chat.completions.create(**ASK)


def with_openai_async(url: str, tries_more: int = 0) -> None:
    async def call() -> None:
        async with openai.AsyncOpenAI(base_url=url, max_retries=tries_more, **limits()) as client:
            await client.chat.completions.create(**ASK)

    asyncio.run(call())


def with_anthropic(url: str, tries_more: int = 0, **options: Any) -> None:
    client = anthropic.Anthropic(base_url=url, max_retries=tries_more, **limits(), **options)
    client.messages.create(max_tokens=1, **ASK)


def with_anthropic_async(url: str, tries_more: int = 0) -> None:
    async def call() -> None:
        async with anthropic.AsyncAnthropic(
            base_url=url, max_retries=tries_more, **limits()
        ) as client:
            await client.messages.create(max_tokens=1, **ASK)

    asyncio.run(call())


CLIENTS: dict[str, Call] = {
    "openai": with_openai,
    "openai, async": with_openai_async,
    "anthropic": with_anthropic,
    "anthropic, async": with_anthropic_async,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("word", ANSWERS)
def test_what_an_answer_to_the_only_try_proves(client: str, word: str) -> None:
    assert at_provider(word, CLIENTS[client]) == ANSWERS[word]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_never_left_this_machine_was_not_applied(client: str) -> None:
    assert at_nobody(CLIENTS[client]) == "not applied"
    assert at_full_backlog(CLIENTS[client]) == "not applied"


@pytest.mark.parametrize("client", CLIENTS)
def test_after_more_than_one_try_an_error_proves_nothing(client: str) -> None:
    def call(url: str) -> None:
        CLIENTS[client](url, tries_more=1)

    # Nothing shows that the first try failed to connect, too.
    assert at_nobody(call) == "unknown"
    for first in ("ok-reset", "ok500", "ok-stall"):
        assert at_provider(f"{first}; 422", call) == "unknown"
        assert at_provider(f"{first}; 401", call) == "unknown"
    assert at_provider("last ok-reset", call) == "unknown"
    # Answers that are not tried again are those to the first try.
    assert at_provider("422", call) == "refused"
    assert at_provider("401", call) == "not applied"


@pytest.mark.parametrize("client", CLIENTS)
def test_the_word_of_the_caller_counts(client: str) -> None:
    def call(url: str) -> None:
        CLIENTS[client](url, tries_more=1)

    assert at_nobody(call, single_try=True) == "not applied"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refusal_behind_a_redirect_says_nothing_about_the_first_server(client: str) -> None:
    assert at_provider(f"ok>307 {refusing_url()}", CLIENTS[client]) == "unknown"


def test_a_middleware_of_anthropic_may_have_sent_before() -> None:
    def again(request: Any, call_next: Any) -> Any:
        try:
            return call_next(request)
        except anthropic.APIError:
            pass
        return call_next(request)

    def call(url: str) -> None:
        with_anthropic(url, middleware=[again])

    assert at_provider("ok-reset; 422", call) == "unknown"
    assert at_provider("last ok-reset", call) == "unknown"
