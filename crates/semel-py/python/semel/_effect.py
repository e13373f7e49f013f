"""Effects: calls that change or charge the outside world."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from . import _current
from ._approval import ApprovalRule, Asker
from ._contracts import Contract, Duration, Retry, again, optional_ms, rate_parts
from ._declare import Declared
from ._errors import NotApplied, Refused, SemelError
from ._native import Ask, Declaration, Wish
from ._programming import is_programming_error, proves_nothing_sent
from ._shape import _FINGERPRINT, is_async
from ._template import (
    KeyMaker,
    KeySource,
    Template,
    TextMaker,
    call_with,
    check_parameters,
    names_used,
)
from ._undo import check_undo
from ._work import LookWork, SendWork
from .classify import error as classified

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Fingerprint = Sequence[str] | str | Callable[..., Any]
Classifier = Callable[[BaseException], "NotApplied | Refused | None"]


class Bound(NamedTuple):
    """One call of an effect: what names it, and what it is sent with."""

    key: list[str]
    downstream_key: str | None
    """The key to pass on, if it is declared."""
    input: str
    ask: Ask | None
    """What a person is asked first."""


class Effect(Declared[P, R_co]):
    """A call that changes or charges the outside world: once per key."""

    def __init__(
        self,
        function: Callable[P, R_co],
        action: str | None = None,
        *,
        key: KeySource,
        fingerprint: Fingerprint | None = None,
        contract: Contract | None = None,
        downstream_key: str | Callable[..., str] | None = None,
        retries: int | Retry | None = None,
        deadline: Duration | None = None,
        settle_window: Duration | None = None,
        replay_window: Duration | None = None,
        lease: Duration | None = None,
        hold: Duration | None = None,
        on_doubt: Literal["wait", "continue"] = "wait",
        classify: Classifier | None = None,
        rate: str | None = None,
        compensate_with: Effect[..., Any] | None = None,
        approval: ApprovalRule | None = None,
    ) -> None:
        action = action or str(getattr(function, "__name__", "effect")).replace("_", "-")
        super().__init__(function, action)
        if self.shape.takes_ctx:
            self.__signature__ = self.shape.signature
        names = self.shape.names
        self.contract = contract
        self.key = KeyMaker(key, names)
        self._fingerprint, members, printed = _fingerprinter(fingerprint, names)
        self.has_fingerprint = members is not None
        self.counted = None if members is None else sorted(printed or members)
        """The parameters that count, where not all of them do."""
        self._classify = classify
        self.downstream_key = (
            None if downstream_key is None else TextMaker(downstream_key, names, "downstream_key")
        )
        self._ask = None if approval is None else Asker(approval, names)
        self.approval = approval
        self.names_before = self.key.names | printed
        """The parameters that must be known before it is sent, beside those of its input."""
        for maker in (self.downstream_key, self._ask):
            self.names_before |= set() if maker is None else maker.names
        if on_doubt not in ("wait", "continue"):
            raise ValueError('on_doubt is "wait" or "continue"')
        if contract is not None and contract.look is not None:
            check_parameters(contract.look, {*names, "self"}, "look")
            if is_async(contract.look) and not self.shape.is_async:
                # A blocking caller does both in its own thread, and has no event loop.
                raise TypeError(f"the look of {action} is async, so its function must be, too")
        self.goes_on = on_doubt == "continue"
        self.again = again(retries)
        self.rate = None if rate is None else rate_parts(rate)
        self.times = {
            "lease_ms": optional_ms(lease),
            "deadline_ms": optional_ms(deadline),
            "settle_ms": optional_ms(settle_window),
            "window_ms": optional_ms(replay_window),
        }
        """The times that are declared; None has its default."""
        self.declaration = Declaration(
            action,
            again=self.again,
            can_abort=self.shape.is_async,
            goes_on=self.goes_on,
            contract=None if contract is None else contract.name,
            retention_ms=None if contract is None else contract.retention_ms,
            look_first=contract is not None and contract.look_first,
            members=members,
            hold_ms=optional_ms(hold),
            rate=self.rate,
            derived=self.key.source,
            **self.times,
        )
        self.compensate_with = compensate_with
        if compensate_with is not None:
            check_undo(self, compensate_with)

    @property
    def action(self) -> str:
        """The kind of effect: the name space of its keys."""
        return self.name

    @property
    def promise(self) -> str:
        """What the contract promises, word for word."""
        return self.declaration.promise()

    def key_of(self, *args: P.args, **kwargs: P.kwargs) -> list[str]:
        """The key of a call, as the list of its parts: for `app.find` and `app.resolve`."""
        return self.key(self._typed(self.shape.bind(args, kwargs)))

    def _typed(self, values: dict[str, Any]) -> dict[str, Any]:
        # What the key is made of is typed first: else `"A0…"` and the UUID that is read from it
        # would be two intents.
        return self.shape.fit(values, self.key.names)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
        """One call: its key and its input."""
        return self.bound(self.shape.bind(args, kwargs))

    def bound(self, values: dict[str, Any]) -> Bound:
        """One call with these values. They may be without what its input gets later."""
        self.shape.result.check()  # now, and not when there is a receipt already
        key = self.key(values := self._typed(values))
        downstream = None if self.downstream_key is None else self.downstream_key(values)
        print_ = None if self._fingerprint is None else self._fingerprint(values)
        ask = None if self._ask is None else self._ask(values)
        return Bound(key, downstream, self.shape.dump(values, print_), ask)

    def wish(self, bound: Bound, app: Any, step: Any = None, send: SendWork | None = None) -> Wish:
        """One call, for the engine."""
        send, look = send or self.send_work(app, step), self.look_work(app, step)
        key, downstream_key, input, ask = bound
        send.subject = f"{self.action}/{','.join(key)}"
        _ = self._says_shape
        return Wish(self.declaration, key, downstream_key, input, send, look, ask)

    @functools.cached_property
    def _says_shape(self) -> bool:
        """Says, at the first call, which receipts fit: what a person gives is held against it."""
        schema = self.shape.result.schema()
        if schema is not None:
            self.declaration.returns(schema)
        return schema is not None

    def uncalled(self) -> tuple[Ask | None, str | None]:
        """What is asked of a person about an effect that no call planned, and the part of the
        declaration that only a call can fill in: an intent from an outbox is refused then."""
        _ = self._says_shape
        ask, part = (None, None) if self._ask is None else self._ask.uncalled()
        if self.downstream_key is not None:
            part = "downstream_key= is made from the call's arguments"
        elif self._fingerprint is not None:
            part = "fingerprint= is made from the call's arguments"
        return ask, part

    def send_work(self, app: Any, step: Any = None) -> SendWork:
        """The call, for the engine."""
        return SendWork(self, self.instance, app, step)

    def look_work(self, app: Any, step: Any = None) -> LookWork | None:
        """The look, for the engine."""
        if self.contract is None or self.contract.look is None:
            return None
        return LookWork(self, self.contract.look, self.instance, app, step)

    def proof(self, error: BaseException) -> str:
        """What an exception of the function proves, or that it is a programming error."""
        if isinstance(error, SemelError) and error.is_told:
            # What became of another effect, which it called: it may have sent its own before.
            return "unknown"
        found: BaseException | None = error
        if not isinstance(error, (NotApplied, Refused)):
            try:
                found = None if self._classify is None else self._classify(error)
                if found is None:
                    found = classified(error)
            except Exception:
                found = None  # a classifier that fails proves nothing
        if isinstance(found, NotApplied):
            return "not_applied"
        if isinstance(found, Refused):
            return "refused"
        if not is_programming_error(error):
            return "unknown"
        is_unsent = proves_nothing_sent(self.shape.function, self.instance)
        return "faulty_unsent" if is_unsent else "faulty"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        app = _current.app()
        result: R_co = app.call_effect(self, self.bind(args, kwargs))
        return result


def _fingerprinter(
    source: Fingerprint | None, names: list[str]
) -> tuple[Callable[[dict[str, Any]], Any] | None, list[str] | None, set[str]]:
    """What makes the fingerprint of a call, the members of the input that count, and the parameters
    that it looks at itself."""
    if source is None:
        return None, None, set()
    if callable(source):
        function = source
        check_parameters(function, set(names), "fingerprint")
        used = names_used(function, names)
        return (lambda values: call_with(function, values)), [_FINGERPRINT], used
    if isinstance(source, str) and "{" in source:
        # Not as one text: in that, two calls of different values could look the same.
        template = Template(source, names, "fingerprint")
        return template.parts, [_FINGERPRINT], names_used(template, names)
    members = [source] if isinstance(source, str) else list(source)
    for name in members:
        if name not in names:
            known = ", ".join(names) or "none"
            detail = f"fingerprint: there is no parameter `{name}`; there are: {known}"
            raise SemelError(detail, code="input_invalid")
    return None, members, set()


def effect(
    action: str | None = None,
    *,
    key: KeySource,
    fingerprint: Fingerprint | None = None,
    contract: Contract | None = None,
    downstream_key: str | Callable[..., str] | None = None,
    retries: int | Retry | None = None,
    deadline: Duration | None = None,
    settle_window: Duration | None = None,
    replay_window: Duration | None = None,
    lease: Duration | None = None,
    hold: Duration | None = None,
    on_doubt: Literal["wait", "continue"] = "wait",
    classify: Classifier | None = None,
    rate: str | None = None,
    compensate_with: Effect[..., Any] | None = None,
    approval: ApprovalRule | None = None,
) -> Callable[[Callable[P, R]], Effect[P, R]]:
    """Declares an effect: a call that must happen once per key.

    `key` is a template over the parameters (`"{request_id}"`), a list of them, or a function:
    business identifiers, never time, chance, attempt or a model's words. `fingerprint` names the
    parameters that count: the same key with others is refused; leave out what a model words anew
    each time.
    `contract` says what the destination offers. The function returns the receipt, or raises
    `NotApplied` or `Refused`; of anything else nobody knows what happened.

    `rate="10/1s"` bounds its sends over all processes. `compensate_with` is the effect that takes
    it back when a run that did it fails or is cancelled. With `approval=approval(…)` a person
    decides on the exact input before it is sent.

    In a workflow it is called by `ctx.step`; called directly it goes through the ledger alone."""
    if callable(action):
        raise TypeError('an effect needs a key: @effect("crm-ticket", key="{request_id}")')
    options = {
        "key": key,
        "fingerprint": fingerprint,
        "contract": contract,
        "downstream_key": downstream_key,
        "retries": retries,
        "deadline": deadline,
        "settle_window": settle_window,
        "replay_window": replay_window,
        "lease": lease,
        "hold": hold,
        "on_doubt": on_doubt,
        "classify": classify,
        "rate": rate,
        "compensate_with": compensate_with,
        "approval": approval,
    }

    def decorate(function: Callable[P, R]) -> Effect[P, R]:
        return Effect(function, action, **options)  # type: ignore[arg-type]

    return decorate
