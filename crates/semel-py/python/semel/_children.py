"""Children: runs that a run starts and waits for."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, overload

from ._codec import Codec, codec
from ._command import Commands, command
from ._contracts import Duration, optional_ms
from ._template import key_parts
from ._workflow import Workflow

T = TypeVar("T")
Key = str | list[str] | tuple[str, ...]


def started(
    workflow: Workflow[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str, Codec]:
    """What a run is started with: the name of its workflow, its input, the codec of its result."""
    if isinstance(workflow, Workflow):
        return workflow.name, workflow.dump_input(args, kwargs), workflow.shape.result
    if not isinstance(workflow, str):
        raise TypeError(f"{workflow!r} is no workflow")
    if kwargs or len(args) > 1:
        raise TypeError("a workflow by its name takes one input")
    return workflow, codec(Any).dump(args[0] if args else None), codec(Any)


class Children(Commands):
    """The part of a context that starts other runs."""

    @overload
    def child(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def child(
        self,
        workflow: str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
    ) -> Coroutine[Any, Any, Any]: ...
    def child(
        self,
        workflow: Workflow[..., Any] | str,
        *args: Any,
        key: Key | None = None,
        deadline: Duration | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Starts a run of a workflow and waits for what it comes to; one that fails or is cancelled
        raises `ChildFailed`.

        Without a key it is named by this run and its place in it, so it is the same child after a
        restart. It ends before this run does: with the cancel, the failure or the deadline of this
        run it is ended. By its name a workflow is started for other workers; given itself, this
        process works on it, too."""
        name, input, result = started(workflow, args, kwargs)
        parts = None if key is None else key_parts(key)
        deadline_ms = optional_ms(deadline)
        if isinstance(workflow, Workflow):
            self._body.app.offer_beside(self._body.workflow, workflow)
        id = self._port.next_id(name)
        return self._child(id, name, parts, input, deadline_ms, result)

    @command
    async def _child(
        self,
        id: str,
        workflow: str,
        key: list[str] | None,
        input: str,
        deadline_ms: int | None,
        result: Codec,
    ) -> Any:
        waiter, answer = self._body.wait(id)
        self._port.child(waiter, id, workflow, key, input, deadline_ms)
        return self._typed(id, result, await answer)
