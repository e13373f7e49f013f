"""Values into JSON and back, by annotation: models, dataclasses, dates and all that Pydantic
knows. Without an annotation a value comes back as plain JSON.

Pydantic is imported when the first value is converted: `import semel` must stay quick."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import date
from typing import Any

from ._errors import SemelError

_SCALARS = (str, int, date)
"""What has subclasses that are written in another way: an enum, a datetime."""


def _plain(value: Any) -> str:
    """The JSON of a value that has no annotation: what it is says how it is written."""
    from pydantic_core import to_json

    text = to_json(value, bytes_mode="base64", inf_nan_mode="constants")
    return text.decode()


def plain(text: str) -> Any:
    """The value of a JSON text that was stored. New ones have at most 64 levels; one that was
    stored before there was a limit may have more than Python can read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        detail = "the value is nested deeper than Python can read; the most is 64 levels"
        raise SemelError(detail, code="input_invalid") from error


class Codec:
    """Converts values of one annotation."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation

    @functools.cached_property
    def _is_listed(self) -> bool:
        """Whether it is written as a list of one: dataclasses and typed dictionaries take our
        settings over from what they are in, and from nowhere else."""
        kind: Any = self.annotation
        if not isinstance(kind, type) or hasattr(kind, "__pydantic_config__"):
            return False
        return is_dataclass(kind) or typing.is_typeddict(self.annotation)

    @functools.cached_property
    def _adapter(self) -> Any:
        """Pydantic's own codec of the type, with our settings where it has none."""
        from pydantic import ConfigDict, TypeAdapter
        from pydantic.errors import PydanticUserError

        config = ConfigDict(
            ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants"
        )
        kind = _modern(self.annotation)
        try:
            if self._is_listed:
                return TypeAdapter[Any](types.GenericAlias(list, kind), config=config)  # type: ignore[arg-type]
            return TypeAdapter(kind, config=config)
        except PydanticUserError as error:
            if error.code == "type-adapter-config-unused":
                return TypeAdapter(kind)
            detail = f"values of {self.name} cannot be stored: {error}"
            raise SemelError(detail, code="input_invalid") from error

    def check(self) -> None:
        """Refuses an annotation whose values cannot be stored."""
        if self.annotation is not Any:
            _ = self._adapter

    def dump(self, value: Any) -> str:
        """The JSON of a value, which may also be something that the annotation accepts."""
        try:
            if self.annotation is Any:
                return _plain(value)
            adapter = self._adapter
            if self._is_listed:
                value = [value]
            try:
                text: str = adapter.serializer.to_json(value, warnings="error").decode()
            except ValueError:
                fitting = adapter.validate_python(value)
                text = adapter.serializer.to_json(fitting, warnings="error").decode()
            return text[1:-1] if self._is_listed else text
        except SemelError:
            raise
        except Exception as error:  # a type's own code may raise anything
            detail = f"{type(value).__name__} cannot be stored as {self.name}: {_why(error)}"
            raise SemelError(detail, code="input_invalid") from error

    def fit(self, value: Any) -> Any:
        """The value as the function will get it: a text may be given where a UUID is annotated."""
        kind = self.annotation
        if kind is Any or type(value) is kind:
            return value
        is_instance = isinstance(kind, type) and isinstance(value, kind)
        if is_instance and not isinstance(value, _SCALARS):
            return value
        return self.load(self.dump(value))

    def load(self, text: str) -> Any:
        """The value of a JSON text."""
        if self.annotation is Any:
            return plain(text)
        adapter = self._adapter
        try:
            if self._is_listed:
                return adapter.validator.validate_json(f"[{text}]")[0]
            return adapter.validator.validate_json(text)
        except Exception as error:  # a type's own code may raise anything
            detail = f"the stored value does not fit {self.name}: {_why(error)}"
            raise SemelError(detail, code="receipt_mismatch") from error

    def schema(self) -> str | None:
        """What fits the annotation, as JSON Schema; nothing where there is none to write."""
        if self.annotation is Any:
            return None
        try:
            found = self._adapter.json_schema()
        except Exception:  # a type of the user's may have no schema, or code of its own for it
            return None
        if self._is_listed:
            found = {**found.pop("items"), "$defs": found.get("$defs", {})}
        return json.dumps(found)

    @property
    def name(self) -> str:
        """The annotation, for people."""
        return getattr(self.annotation, "__name__", str(self.annotation))


def _why(error: Exception) -> str:
    """What a value was refused for, without the value: that may be a secret."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in found[:5])


def _modern(annotation: Any) -> Any:
    """The annotation with each `typing.TypedDict` as one that says which members it must have:
    before Python 3.12 the standard library's own does not, and Pydantic refuses it."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing":
        from typing_extensions import NotRequired, TypedDict

        members = {
            name: kind if name in annotation.__required_keys__ else NotRequired[kind]
            for name, kind in (
                (name, _modern(kind)) for name, kind in typing.get_type_hints(annotation).items()
            )
        }
        return TypedDict(annotation.__name__, members)  # type: ignore[operator]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None or not args:
        return annotation
    if origin is types.UnionType:
        origin = typing.Union
    try:
        return origin[tuple(_modern(arg) for arg in args)]
    except TypeError:  # such as Annotated or Callable: left as it is
        return annotation


@functools.lru_cache(maxsize=4096)
def _cached(annotation: Any) -> Codec:
    return Codec(annotation)


def codec(annotation: Any) -> Codec:
    """The codec of an annotation."""
    if annotation is inspect.Parameter.empty:
        annotation = Any
    try:
        return _cached(annotation)
    except TypeError:  # not hashable
        return Codec(annotation)


def hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function, resolved."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__annotations__"):
        # An object that can be called: its annotations are where it is called.
        function = getattr(type(function), "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        if not getattr(function, "__annotations__", None):
            return {}  # a part of the interpreter: it has none
        # Not without: the function would get plain JSON where it says that it takes a model.
        what = getattr(function, "__qualname__", repr(function))
        detail = f"an annotation of {what} cannot be resolved: {error}"
        raise SemelError(detail, code="input_invalid") from error
