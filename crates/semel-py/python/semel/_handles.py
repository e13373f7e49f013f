"""Runs, from outside: for sync code and for async code."""

from __future__ import annotations

import asyncio
import getpass
import json
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._codec import Codec, codec
from ._errors import TimedOut
from ._host import Begin, Host, ask_blocking
from ._proof import Proof, read_proof

if TYPE_CHECKING:
    from . import _native

T = TypeVar("T")


def actor_name() -> str:
    """Who decides, where the caller does not say."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "python"


class _Run(Generic[T]):
    """What the handles of runs have in common."""

    def __init__(self, native: _native.Handle, result: Codec) -> None:
        self._native = native
        self._result = result

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._native.id

    @property
    def attached(self) -> bool:
        """Whether the run was there before, so that this start changed nothing."""
        return self._native.attached

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def _signal(self, name: str, payload: Any, id: str | None) -> Begin:
        text = codec(Any).dump(payload)
        return lambda inbox, token: self._native.signal(inbox, token, name, text, id)

    def _skip(self, step: str, value: Any, reason: str, actor: str | None) -> Begin:
        text, who = codec(Any).dump(value), actor or actor_name()
        return lambda inbox, token: self._native.skip(inbox, token, step, text, who, reason)


class RunHandle(_Run[T]):
    """A run, from outside."""

    def result(self, timeout: float | None = None) -> T:
        """Waits for the end of the run and returns what it came to; raises what it raised.

        A paused run raises `RunPaused`: nothing happens before an operator decides."""
        value: T = self._result.load(ask_blocking(self._native.result, timeout))
        return value

    def status(self) -> dict[str, Any]:
        """The run as it stands."""
        return dict(json.loads(ask_blocking(self._native.status)))

    def proof(self) -> Proof:
        """Proves what became of the run and of its effects, on what evidence, and what is not
        proven. Written as JSON, `semel proof verify` checks it without the store."""
        return read_proof(ask_blocking(self._native.proof))

    @property
    def state(self) -> str:
        """Where the run stands."""
        return str(self.status()["state"])

    def signal(self, name: str, payload: Any = None, id: str | None = None) -> bool:
        """Sends a signal. `id` names the delivery, so that sending it again changes nothing: then
        the answer is False."""
        return bool(ask_blocking(self._signal(name, payload, id)) == "false")

    def cancel(self, reason: str, actor: str | None = None) -> str:
        """Asks for the end of the run. What it has under way outside is settled first."""
        who = actor or actor_name()
        return str(ask_blocking(lambda i, t: self._native.cancel(i, t, who, reason)))

    def retry(self, reason: str, actor: str | None = None) -> str:
        """Lets a paused run try again what it could not do."""
        who = actor or actor_name()
        return str(ask_blocking(lambda i, t: self._native.retry(i, t, who, reason)))

    def skip(self, step: str, value: Any, reason: str, actor: str | None = None) -> str:
        """Gives the step on which a run is paused its value."""
        return str(ask_blocking(self._skip(step, value, reason, actor)))


class AsyncRunHandle(_Run[T]):
    """A run, from outside, for async code."""

    async def result(self, timeout: float | None = None) -> T:
        """Waits for the end of the run and returns what it came to; raises what it raised."""
        # Not by `wait_for`: its timeout could not be told from one that the workflow raised.
        asked = asyncio.ensure_future(Host.running().ask(self._native.result))
        try:
            done, _ = await asyncio.wait([asked], timeout=timeout)
        finally:
            asked.cancel()
        if not done:
            raise TimedOut(f"no answer within {timeout} s")
        value: T = self._result.load(asked.result())
        return value

    async def status(self) -> dict[str, Any]:
        """The run as it stands."""
        return dict(json.loads(await Host.running().ask(self._native.status)))

    async def proof(self) -> Proof:
        """Proves what became of the run and of its effects, on what evidence."""
        return read_proof(await Host.running().ask(self._native.proof))

    async def state(self) -> str:
        """Where the run stands."""
        return str((await self.status())["state"])

    async def signal(self, name: str, payload: Any = None, id: str | None = None) -> bool:
        """Sends a signal; False when this delivery had come before."""
        return bool(await Host.running().ask(self._signal(name, payload, id)) == "false")

    async def cancel(self, reason: str, actor: str | None = None) -> str:
        """Asks for the end of the run. What it has under way outside is settled first."""
        who = actor or actor_name()
        return str(await Host.running().ask(lambda i, t: self._native.cancel(i, t, who, reason)))

    async def retry(self, reason: str, actor: str | None = None) -> str:
        """Lets a paused run try again what it could not do."""
        who = actor or actor_name()
        return str(await Host.running().ask(lambda i, t: self._native.retry(i, t, who, reason)))

    async def skip(self, step: str, value: Any, reason: str, actor: str | None = None) -> str:
        """Gives the step on which a run is paused its value."""
        return str(await Host.running().ask(self._skip(step, value, reason, actor)))
