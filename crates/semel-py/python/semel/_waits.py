"""Waiting in a workflow: for time, for signals, for people, and for whoever has a token."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar, cast, overload

from ._codec import codec, plain
from ._command import Commands, command
from ._contracts import Duration, milliseconds, optional_ms
from ._errors import TimedOut
from ._native import callback_signal

T = TypeVar("T")


class Signal:
    """A signal that came. The members of its payload are its attributes; `signal_name` and
    `payload` are its own."""

    def __init__(self, name: str, payload: Any) -> None:
        self.signal_name = name
        self.payload = payload

    def __getattr__(self, member: str) -> Any:
        payload: Any = self.__dict__.get("payload")
        if isinstance(payload, dict) and member in payload:
            return cast(Any, payload)[member]
        # Not by `self`: while it is copied there is no name, and this would be asked again.
        name = self.__dict__.get("signal_name")
        raise AttributeError(f"the signal {name!r} has no member {member!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.payload)

    def __getitem__(self, member: Any) -> Any:
        return self.payload[member]

    def __repr__(self) -> str:
        return f"Signal({self.signal_name!r})"


class Waits(Commands):
    """The part of a context that waits."""

    @command
    async def _sleep(self, id: str, ms: int) -> None:
        waiter, answer = self._body.wait(id)
        self._port.sleep(waiter, id, ms)
        await answer

    def sleep(self, duration: Duration) -> Coroutine[Any, Any, None]:
        """Waits, for as long as it takes: the run is parked meanwhile."""
        return self._sleep(self._port.command_id("sleep", None), milliseconds(duration))

    @overload
    def wait_for_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        metadata: Any = None,
        type: None = None,
        step_id: str | None = None,
    ) -> Coroutine[Any, Any, Signal]: ...
    @overload
    def wait_for_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        metadata: Any = None,
        *,
        type: type[T],
        step_id: str | None = None,
    ) -> Coroutine[Any, Any, T]: ...
    def wait_for_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        metadata: Any = None,
        type: Any = None,
        step_id: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Waits for a signal of this name. One that came early is there at once; each is
        taken once.

        Returns a `Signal` whose attributes are the members of the payload, or the payload as a
        `type`. Raises `TimedOut`, a `TimeoutError`, when none came in time. `metadata` is shown to
        operators while the run waits."""
        id = self._port.command_id(f"signal {name}", step_id)
        note = None if metadata is None else codec(Any).dump(metadata)
        late = f"no signal {name!r} came in time"
        return self._wait(id, name, optional_ms(timeout), note, type, late)

    @command
    async def _wait(
        self, id: str, name: str, timeout_ms: int | None, note: str | None, type: Any, late: str
    ) -> Any:
        waiter, came = self._body.wait(id)
        self._port.wait(waiter, id, name, timeout_ms, note)
        payload = await came
        if payload is None:
            raise self._body.answer(TimedOut(late), TimedOut.code)
        if type is None:
            return Signal(name, plain(payload))
        return self._typed(id, codec(type), payload)

    @overload
    def wait_for_user(
        self,
        name: str,
        prompt: str,
        *,
        choices: Sequence[str] = (),
        timeout: Duration | None = None,
        type: None = None,
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def wait_for_user(
        self,
        name: str,
        prompt: str,
        *,
        choices: Sequence[str] = (),
        timeout: Duration | None = None,
        type: type[T],
    ) -> Coroutine[Any, Any, T]: ...
    def wait_for_user(
        self,
        name: str,
        prompt: str,
        *,
        choices: Sequence[str] = (),
        timeout: Duration | None = None,
        type: Any = None,
    ) -> Coroutine[Any, Any, Any]:
        """Waits for what a person says: it is sent as a signal of this name.

        `prompt` and `choices` are shown to operators while the run waits. What is none of the
        choices is passed over, and the wait goes on. Returns what was said, or it as a `type`;
        raises `TimedOut`, a `TimeoutError`, when nobody said anything in time."""
        if isinstance(choices, str):
            raise TypeError("choices are several texts")
        note = codec(Any).dump(
            {"prompt": prompt, **({"choices": list(choices)} if choices else {})}
        )
        said = Any if type is None else type
        late = f"nobody answered {name!r} in time"
        id = self._port.command_id(f"signal {name}", None)
        if not choices:
            return self._wait(id, name, optional_ms(timeout), note, said, late)
        chosen = self._choose(id, name, list(choices), optional_ms(timeout), note, said, late)
        self._body.unawaited.made(chosen, id)
        return chosen

    async def _choose(
        self,
        id: str,
        name: str,
        choices: list[str],
        timeout_ms: int | None,
        note: str,
        type: Any,
        late: str,
    ) -> Any:
        # By the clock of the run, which is the same in every replay.
        since, left = self._port.now_ms(), timeout_ms
        while True:
            payload = await self._wait(id, name, left, note, Any, late)
            if payload in choices:
                return self._typed(id, codec(type), json.dumps(payload))
            if timeout_ms is not None:
                left = max(timeout_ms - (self._port.now_ms() - since), 0)
            id = self._port.next_id(f"signal {name}")

    def callback(self, name: str) -> Coroutine[Any, Any, Callback]:
        """A token by which somebody outside answers once, such as an agent that reports back: give
        it away by an effect, then wait for the answer."""
        return self._callback(self._port.command_id(name, None))

    @command
    async def _callback(self, id: str) -> Callback:
        waiter, answer = self._body.wait(id)
        self._port.callback(waiter, id)
        return Callback(self, id, plain(await answer or "null"))

    def _answer(self, id: str, timeout: Duration | None, type: Any) -> Coroutine[Any, Any, Any]:
        name = callback_signal(id)
        said = Any if type is None else type
        late = f"no answer to {id!r} came in time"
        timeout_ms = optional_ms(timeout)
        return self._wait(self._port.next_id(name), name, timeout_ms, None, said, late)


class Callback:
    """A token, and the answer that it brings."""

    def __init__(self, waits: Waits, id: str, token: str) -> None:
        self._waits = waits
        self._id = id
        self._token = token

    @property
    def token(self) -> str:
        """Whoever has this can answer, once, by `app.call_back`. It is as good as a password."""
        return self._token

    @overload
    def answer(
        self, timeout: Duration | None = None, type: None = None
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def answer(
        self, timeout: Duration | None = None, *, type: type[T]
    ) -> Coroutine[Any, Any, T]: ...
    def answer(self, timeout: Duration | None = None, type: Any = None) -> Any:
        """Waits for the answer; one that came early is there at once. Returns it, or it as a
        `type`; raises `TimedOut`, a `TimeoutError`, when none came in time."""
        return self._waits._answer(self._id, timeout, type)

    def __repr__(self) -> str:
        return f"<callback {self._id}>"
