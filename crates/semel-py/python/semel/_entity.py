"""Entities: who may act on a thing."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

from ._command import Commands, command

if TYPE_CHECKING:
    from types import TracebackType


class Entity:
    """An entity that this run alone may act on."""

    def __init__(self, entities: Entities, id: str, name: str, fence: int) -> None:
        self._entities = entities
        self._id = id
        self._is_left = False
        self.name = name
        """Such as `ticket:42`."""
        self.fence = fence
        """Grows with each grant of the entity: for whatever outside can compare it."""

    async def leave(self) -> None:
        """Lets the entity go before the run ends."""
        if not self._is_left:
            self._is_left = True
            await self._entities._leave(self._id, self.name)

    def __repr__(self) -> str:
        return f"<entity {self.name} fence={self.fence}>"


class Entering:
    """An entity being asked for: awaited it is held until the run ends or leaves it, by
    `async with` until the end of that."""

    def __init__(self, entities: Entities, id: str, name: str) -> None:
        self._entities = entities
        self._id = id
        self._name = name
        self._entity: Entity | None = None

    def __await__(self) -> Generator[Any, Any, Entity]:
        return self._entities._enter(self._id, self._name).__await__()

    async def __aenter__(self) -> Entity:
        self._entity = await self
        return self._entity

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A body that is only put away has not left: its run goes on, and still holds the entity.
        if self._entity is None or isinstance(error, GeneratorExit):
            return
        if error is None:
            await self._entity.leave()
            return
        # Not at once: an exception may end the body and pause the run. Corrected code, which does
        # not raise it, must find no such command on record.
        body, entity = self._entities._body, self._entity
        body.later(lambda: body.loop.do(entity.leave()))


class Entities(Commands):
    """The part of a context that says who may act."""

    def entity(self, name: str) -> Entering:
        """Waits until this run alone may act on an entity, such as `ticket:42`:

            async with ctx.entity("ticket:42") as entity:
                await ctx.step(update, "42", entity.fence)

        Others wait for their turn, in the order in which they came, over restarts too. The key of
        an effect says whether it was done before; this says who may act. Awaited instead, it is
        held until `leave()` or the end of the run."""
        id = self._port.next_id(f"entity {name}")
        entering = Entering(self, id, name)
        self._body.unawaited.made(entering, id)
        return entering

    @command
    async def _enter(self, id: str, name: str) -> Entity:
        waiter, answer = self._body.wait(id)
        self._port.enter(waiter, id, name)
        try:
            fence = await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The wish stands, and nobody would hold what it gets: that is left as soon as it is
            # there. Else this very run might wait for itself.
            answer.add_done_callback(functools.partial(self._leave_unused, id, name))
            raise
        return Entity(self, id, name, json.loads(fence or "0"))

    def _leave_unused(self, id: str, name: str, answer: asyncio.Future[str | None]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self._body.loop.do(self._leave(id, name))

    def _leave(self, entered: str, name: str) -> Coroutine[Any, Any, None]:
        return self._left(self._port.next_id(f"leave {name}"), entered, name)

    @command
    async def _left(self, id: str, entered: str, name: str) -> None:
        waiter, answer = self._body.wait(id)
        self._port.leave(waiter, id, entered, name)
        await answer
