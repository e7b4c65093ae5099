"""Frozen public documents: strict types, canonical JSON in both directions, and a digest.

Two documents are equal if and only if their canonical JSON is: keys in order, no spaces, numbers in
the shortest form that reads back as the same number. An infinite number is the text "infinity".
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import pydantic
from pydantic import BaseModel, ValidationError

from taciturn.checks import repeated
from taciturn.errors import InputError

if TYPE_CHECKING:  # pydantic has no public name for the class of its models
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

INFINITY = "infinity"
_INFINITE = {INFINITY: math.inf, f"-{INFINITY}": -math.inf}


def _from_text(value: Any) -> Any:
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _to_text(value: float) -> float | str:
    return next((text for text, number in _INFINITE.items() if number == value), value)


def _no_nan(value: float) -> float:
    if math.isnan(value):
        raise InputError("a value is NaN; give a number")
    return value


# a number that may be infinite
Extended = Annotated[
    float,
    pydantic.Field(allow_inf_nan=True),
    pydantic.BeforeValidator(_from_text),
    pydantic.AfterValidator(_no_nan),
    pydantic.PlainSerializer(_to_text, return_type=float | str, when_used="json"),
    pydantic.WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": list(_INFINITE)}]}),
]


class _OneError(ModelMetaclass):
    """Turns every error of validation, of a constructor too, into one `InputError`."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            raise InputError(_sentence(self.__name__, error)) from error


class Part(BaseModel, metaclass=_OneError):
    """A part of a document: its values are of the declared types, and none is missing or added."""

    model_config = pydantic.ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False
    )


D = TypeVar("D", bound="Document")


class Document(Part):
    """A document of parts; JSON of another format or version is refused."""

    FORMAT: ClassVar[str]
    VERSION: ClassVar[int]

    def to_json(self) -> str:
        """Return the canonical JSON."""
        stated = {"format": self.FORMAT, "version": self.VERSION}
        return _canonical(stated | self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON in UTF-8, in hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def schema_of_json(cls) -> dict[str, Any]:
        """Return the JSON Schema (draft 2020-12) of what `to_json` writes.

        It covers types, names and ranges; only `from_json` checks that parts are consistent.
        """
        schema = cls.model_json_schema()
        stated = {"format": {"const": cls.FORMAT}, "version": {"const": cls.VERSION}}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **schema,
            "title": f"{cls.FORMAT} {cls.VERSION}",
            "properties": {**stated, **schema["properties"]},
            "required": [*stated, *schema["properties"]],
        }

    @classmethod
    def from_json(cls: type[D], text: str) -> D:
        """Return the document that JSON describes, canonical or not.

        Raises `InputError` for text that is not a JSON object, another format or version, missing,
        unknown or repeated keys, values of another type, NaN, and values that contradict one
        another.
        """
        values = _parsed(text, cls.FORMAT)
        for key, needed in (("format", cls.FORMAT), ("version", cls.VERSION)):
            given = values.pop(key, None)
            if type(given) is not type(needed) or given != needed:
                raise InputError(
                    f"{key} is {given!r}; this version of taciturn reads {cls.FORMAT} version "
                    f"{cls.VERSION}, so write the document again with it"
                )
        try:
            return cls.model_validate_json(_canonical(values))
        except ValidationError as error:
            raise InputError(_sentence(cls.FORMAT, error)) from error


def _canonical(values: Any) -> str:
    return json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        values = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
        _canonical(values).encode()  # a number too large for a float reads as infinity
    except InputError:
        raise
    except RecursionError as error:
        raise InputError(f"{what}: the JSON is nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{what} cannot be read as JSON ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{what}: expected a JSON object, found {type(values).__name__}")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = repeated(name for name, _ in pairs)
    if twice:
        raise InputError(f"the key {twice[0]!r} is given twice; give each key once")
    return dict(pairs)


def _refused(name: str) -> float:
    raise InputError(f'{name} is no JSON number; give a finite one, or "{INFINITY}"')


def _sentence(what: str, error: ValidationError) -> str:
    """Return the first of the errors in one line: where, what is wrong, what was given."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return str(cause)
    given, text = "", repr(first["input"])
    if first["type"] not in {"missing", "extra_forbidden"}:
        given = f"; it is {text if len(text) <= 60 else f'{text[:57]}...'}"
    return f"{what}: {place}: {first['msg'][0].lower()}{first['msg'][1:]}{given}"
