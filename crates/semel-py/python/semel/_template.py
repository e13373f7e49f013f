"""Keys and the like as templates over the parameters of a function: `"{request_id}"`."""

from __future__ import annotations

import enum
import inspect
import re
import string
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime, timezone
from typing import Any, cast

from ._errors import SemelError

KeySource = str | Sequence[str] | Callable[..., Any]
"""How a key is declared: a template, a list of templates, or a function of the parameters."""

_WORD = re.compile(r"\w")
_SEPARATORS = " :/,;|.-_#"


class Template:
    """Text with places for parameters, checked when it is declared. Without names it is about
    something whose members nobody knows yet."""

    def __init__(self, text: str, names: Iterable[str] | None, what: str) -> None:
        self.text = text
        self.pieces: list[tuple[str, str | None]] = []
        known = None if names is None else set(names)
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise _invalid(f"{what} {text!r}: {error}") from error
        for literal, field, spec, conversion in parsed:
            if spec or conversion:
                raise _invalid(f"{what} {text!r}: a place has a name only, no `!` or `:`")
            if field is not None:
                _check_field(field, known, f"{what} {text!r}")
            self.pieces.append((literal, field))

    @property
    def fields(self) -> list[str]:
        """The places, in order."""
        return [field for _, field in self.pieces if field is not None]

    def fill(self, values: dict[str, Any]) -> str:
        """The text with the values of a call."""
        filled = (
            literal + ("" if field is None else _value(field, values))
            for literal, field in self.pieces
        )
        return "".join(filled)

    def parts(self, values: dict[str, Any]) -> list[str]:
        """The values of a call as parts of a key. With several places each is a part of its own:
        in one text `a:b` and `c` could not be told from `a` and `b:c`."""
        if len(self.fields) < 2:
            return [self.fill(values)]
        return self._parts(lambda field: _value(field, values))

    def shown_parts(self) -> list[str]:
        """The parts of a key with the names of the places in their stead."""
        if len(self.fields) < 2:
            return [self.text]
        return self._parts(lambda field: "{" + field + "}")

    def _parts(self, value: Callable[[str], str]) -> list[str]:
        parts: list[str] = []
        for literal, field in self.pieces:
            # What only separates is no part: each place is one already.
            if _WORD.search(word := literal.strip(_SEPARATORS)):
                parts.append(word)
            if field is not None:
                parts.append(value(field))
        return parts


def _check_field(field: str, known: set[str] | None, where: str) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", field):
        raise _invalid(f"{where}: `{{{field}}}` is no parameter")
    name = field.partition(".")[0]
    if known is not None and name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise _invalid(f"{where}: there is no parameter `{name}`; there are: {names}")


def _value(field: str, values: dict[str, Any]) -> str:
    """The value of a place. One that is missing or blank would give many intents one key."""
    name, *attributes = field.split(".")
    found: Any = values[name]
    for attribute in attributes:
        try:
            is_mapping = isinstance(found, dict)
            found = found[attribute] if is_mapping else getattr(found, attribute)
        except (KeyError, AttributeError):
            raise _invalid(f"`{field}`: {type(found).__name__} has no `{attribute}`") from None
    return key_text(found, field)


def key_text(value: Any, name: str) -> str:
    """A business identifier as text; what is none is refused."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        if not value.strip():
            raise _invalid(f"`{name}` is blank: all such calls would share one key")
        return value
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.astimezone(timezone.utc)  # one moment, whatever the clock on the wall
    if isinstance(value, (uuid.UUID, date)) or type(value) is int:
        return str(value)
    raise _invalid(f"`{name}` is {type(value).__name__}: a key is made of text and whole numbers")


class KeyMaker:
    """Makes the key of a call, as the list of its parts."""

    def __init__(self, source: KeySource, names: Collection[str]) -> None:
        self.function: Callable[..., Any] | None = None
        """What makes it, where a function does."""
        self.templates: list[Template] = []
        if callable(source):
            self.function = source
            check_parameters(source, set(names), "key")
        elif isinstance(source, str):
            self.templates = [Template(source, names, "key")]
        else:
            self.templates = [Template(part, names, "key") for part in source]
        if self.function is None and not self.templates:
            raise _invalid("the key is empty")
        for template in self.templates:
            if not template.text.strip():
                raise _invalid("a part of the key is blank")
        self.source = _told(source)
        """How the key is made, as its author wrote it."""
        self.names: set[str] = set()
        """The parameters that it looks at."""
        for one in (source,) if callable(source) else self.templates:
            self.names |= names_used(one, names)

    def __call__(self, values: dict[str, Any]) -> list[str]:
        if self.function is not None:
            return key_parts(call_with(self.function, values))
        # Each template gives the same number of parts in every call, so none can pass for another.
        return [part for template in self.templates for part in template.parts(values)]


def _told(source: KeySource) -> str:
    """The text of a template, of a list of them, or the name of a function with its parameters."""
    if isinstance(source, str):
        return source
    if not callable(source):
        return "[" + ", ".join(source) + "]"
    name = getattr(source, "__qualname__", type(source).__name__)
    return f"function {name}({', '.join(inspect.signature(source).parameters)})"


def key_parts(key: Any) -> list[str]:
    """A key as the list of its parts."""
    if isinstance(key, (list, tuple)):
        if not key:
            raise _invalid("the key is empty")
        return [key_text(part, "a part of the key") for part in cast(Sequence[Any], key)]
    return [key_text(key, "the key")]


class TextMaker:
    """Makes a text of a call: from a template or a function."""

    def __init__(self, source: str | Callable[..., str], names: Collection[str], what: str) -> None:
        if callable(source):
            check_parameters(source, set(names), what)
        self._source = source if callable(source) else Template(source, names, what)
        self.text = self._source.text if isinstance(self._source, Template) else None
        """The template, where it is one."""
        self.names = names_used(self._source, names)
        """The parameters that it looks at."""

    def __call__(self, values: dict[str, Any]) -> str:
        source = self._source
        return (
            source.fill(values) if isinstance(source, Template) else str(call_with(source, values))
        )


def names_used(source: Template | Callable[..., Any], names: Collection[str]) -> set[str]:
    """The parameters that a template or a function looks at."""
    if isinstance(source, Template):
        return {field.partition(".")[0] for field in source.fields}
    parameters = inspect.signature(source).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return set(names)
    return {parameter.name for parameter in parameters} & set(names)


def check_parameters(function: Callable[..., Any], known: set[str], what: str) -> None:
    """Refuses a function whose parameters are no parameters of what it belongs to."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.name not in known and parameter.default is parameter.empty:
            names = ", ".join(sorted(known)) or "none"
            detail = f"the {what} asks for `{parameter.name}`, which is no parameter of the effect"
            raise _invalid(f"{detail}; there are: {names}")


def call_with(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Calls a function with those of the values that it has parameters for."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function(**values)
    names = {parameter.name for parameter in parameters}
    return function(**{name: value for name, value in values.items() if name in names})


def _invalid(detail: str) -> SemelError:
    return SemelError(detail, code="key_invalid")
