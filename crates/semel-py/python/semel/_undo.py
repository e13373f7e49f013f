"""Sagas: the effect that takes another one back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import SemelError

if TYPE_CHECKING:
    from ._effect import Bound, Effect


class Undo(NamedTuple):
    """What takes one call of an effect back."""

    effect: Effect[..., Any]
    bound: Bound
    receipt_as: str
    """The parameter that gets the receipt of what is taken back."""


def check_undo(effect: Effect[..., Any], undo: Any) -> str:
    """Refuses what cannot take an effect back. Returns the parameter that gets the receipt."""
    from ._effect import Effect

    if not isinstance(undo, Effect):
        raise _unfit(f"compensate_with is a declared effect, not {undo!r}")
    if undo.contract is not None and undo.contract.name == "transaction":
        raise _unfit(f"{undo.name} is a transaction, and cannot take back what a run did")
    parameters = undo.shape.parameters
    if not parameters or parameters[0].kind in (
        parameters[0].VAR_POSITIONAL,
        parameters[0].VAR_KEYWORD,
    ):
        raise _unfit(f"{undo.name} has no first parameter for the receipt of {effect.name}")
    receipt, *others = parameters
    for other in others:
        is_open = other.kind in (other.VAR_POSITIONAL, other.VAR_KEYWORD)
        if other.name not in effect.shape.names and other.default is other.empty and not is_open:
            known = ", ".join(effect.shape.names) or "none"
            detail = f"{undo.name} takes `{other.name}`, which {effect.name} does not have"
            raise _unfit(f"{detail}; there are: {known}")
    if receipt.name in undo.names_before:
        # It is declared before there is a receipt: what may be undone is known from the start.
        detail = f"the key and the like of {undo.name} may not be made of the receipt"
        raise _unfit(f"{detail} `{receipt.name}`: use what {effect.name} was called with")
    return receipt.name


def undo_of(
    effect: Effect[..., Any], undo: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Undo | None:
    """What takes this call back: as the caller says, or else as the effect itself does."""
    undo = effect.compensate_with if undo is None else undo
    if undo is None:
        return None
    receipt_as = check_undo(effect, undo)
    if undo.shape.is_method and undo.instance is None and effect.instance is not None:
        undo = undo.__get__(effect.instance)
    given = effect.shape.bind(args, kwargs)
    values: dict[str, Any] = {}
    for parameter in undo.shape.parameters[1:]:
        if parameter.name in given:
            values[parameter.name] = given[parameter.name]
        elif parameter.default is not parameter.empty:
            values[parameter.name] = parameter.default
    return Undo(undo, undo.bound(values), receipt_as)


def _unfit(detail: str) -> SemelError:
    return SemelError(detail, code="input_invalid")
