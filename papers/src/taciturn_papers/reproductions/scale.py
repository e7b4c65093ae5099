"""How much of a paper is run, changed by name.

A scale is a frozen dataclass of numbers, words and tuples of them. A tuple of dataclasses holds
parts that go by the value of their first field: a data set or a network.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from taciturn.errors import InputError

T = TypeVar("T")
_WHOLE = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf", re.IGNORECASE)


def settings_of(scale: Any) -> dict[str, str]:
    """Return every setting of a scale by its name, as `changed` takes it.

    Examples
    --------
    >>> from taciturn_papers.reproductions.wang2024 import QUICK
    >>> settings_of(QUICK)["sizes"]
    '4,8'
    """
    return dict(_listed(scale, ""))


def _listed(scale: Any, before: str) -> Iterator[tuple[str, str]]:
    for each in dataclasses.fields(scale):
        value = getattr(scale, each.name)
        yield before + each.name, _text(value)
        for part in _parts(value):
            yield from _listed(part, f"{_key(part)}.")


def _parts(value: Any) -> tuple[Any, ...]:
    several = isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0])
    return value if several else ()


def _key(part: Any) -> str:
    return str(getattr(part, dataclasses.fields(part)[0].name))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_text(each) for each in value)
    if dataclasses.is_dataclass(value):
        return _key(value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def changed(scale: T, settings: Sequence[str]) -> T:
    """Return the scale with settings, each NAME=VALUE, changed in the order given.

    Several values are separated by commas. A tuple of parts takes their names; one that is not
    there is added with the settings of the first. A setting of a part is PART.NAME.

    Raises
    ------
    InputError
        If there is no such setting, or the value is not one of its kind.

    Examples
    --------
    >>> from taciturn_papers.reproductions.wang2024 import QUICK
    >>> changed(QUICK, ["sizes=4,16", "hops=100"]).sizes
    (4, 16)
    """
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"{setting!r} is no setting; write NAME=VALUE")
        scale = _changed(scale, name.strip(), text.strip())
    return scale


def _changed(scale: T, name: str, text: str) -> T:
    known = settings_of(scale)
    if name not in known:
        raise InputError(f"there is no setting {name!r}; there are {', '.join(known)}")
    owner, dot, rest = name.rpartition(".")
    if not dot:
        value = _value(name, text, get_type_hints(type(scale))[name], getattr(scale, name))
        return dataclasses.replace(scale, **{name: value})  # type: ignore[type-var]
    for each in dataclasses.fields(scale):  # type: ignore[arg-type]
        parts = _parts(getattr(scale, each.name))
        if owner in map(_key, parts):
            new = tuple(_changed(p, rest, text) if _key(p) == owner else p for p in parts)
            scale = dataclasses.replace(scale, **{each.name: new})  # type: ignore[type-var]
    return scale


def _value(name: str, text: str, kind: Any, now: Any) -> Any:
    if get_origin(kind) is tuple:
        texts = [each.strip() for each in text.split(",") if each.strip()]
        inner = get_args(kind)[0]
        if dataclasses.is_dataclass(inner):
            return tuple(_part(each, now) for each in texts)
        return tuple(_value(name, each, inner, None) for each in texts)
    if get_origin(kind) in {Union, types.UnionType}:
        if text.lower() == "none":
            return None
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    return _single(name, text, kind)


def _part(key: str, now: tuple[Any, ...]) -> Any:
    for part in now:
        if _key(part) == key:
            return part
    return dataclasses.replace(now[0], **{dataclasses.fields(now[0])[0].name: key})


def _single(name: str, text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal or kind is bool:
        names = ("False", "True") if kind is bool else get_args(kind)
        if text not in names:
            raise InputError(f"{name} is {text!r}; choose from {', '.join(names)}")
        return text == "True" if kind is bool else text
    if kind is int and not (_WHOLE.fullmatch(text) and int(text)):
        raise InputError(f"{name} is {text!r}; give a whole number of at least 1")
    if kind is float and not _NUMBER.fullmatch(text):
        raise InputError(f"{name} is {text!r}; give a number of at least 0")
    return kind(text)
