"""What is public about the columns of a table: ranges, lists of categories, labels."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from tacit.errors import InputError
from tacit.typing import Task

Origin: TypeAlias = Literal["public", "data"]

_ABOUT: Mapping[Origin, str] = {
    "data": (
        "# These values were filled in from the records themselves. A run with them is certified\n"
        "# only on the condition that they would have been the same whatever one record says.\n"
        "# Replace them by ranges and lists that you knew before you looked, for example from a\n"
        '# code book, and then write source = "public".\n'
    ),
    "public": "# These values were known before anybody looked at the records.\n",
}


@dataclass(frozen=True)
class Numeric:
    """A number from `minimum` to `maximum`; what lies outside is clipped.

    Raises
    ------
    InputError
        Unless `minimum` < `maximum`, both are at most 1e100 in size, and they differ by more than
        a billionth of it: coefficients per unit would lose their digits otherwise.
    """

    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        size = max(abs(self.minimum), abs(self.maximum))
        if not (size <= 1e100 and self.minimum < self.maximum):
            raise InputError(
                f"min is {self.minimum:g} and max is {self.maximum:g}; min must be below max, and "
                "both finite (at most 1e100 in size)"
            )
        if not self.width > max(1e-9 * size, 1e-100):
            raise InputError(
                f"min is {self.minimum:g} and max is above it by {self.width:g} only; subtract a "
                "public constant from the column, or widen the range"
            )

    @property
    def width(self) -> float:
        """The difference of the two ends, in the units of the column."""
        return self.maximum - self.minimum


@dataclass(frozen=True)
class Categories:
    """One of `values`, which are compared as text.

    Raises
    ------
    InputError
        If there are none, or one occurs twice.
    """

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("the list of values is empty; name every value that may occur")
        twice = repeated(self.values)
        if twice:
            raise InputError(f"the value {min(twice)!r} is listed twice; list each value once")


@dataclass(frozen=True)
class Bounds:
    """The public facts about a table.

    Attributes
    ----------
    origin
        "public": known before anybody looked at the records; "data": filled in from them, which
        makes every certificate conditional.
    target_name
        The column to be predicted.
    target
        A range (regression) or the labels (classification), at least two.
    columns
        What is known of every other column, in the order of the model's coefficients.
    ignored
        Columns of the file that are not used.

    Raises
    ------
    InputError
        If a column appears twice, there is no column, or there are fewer than two labels.
    """

    origin: Origin
    target_name: str
    target: Numeric | Categories
    columns: Mapping[str, Numeric | Categories]
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = [self.target_name, *self.columns, *self.ignored]
        twice = repeated(named)
        if twice:
            raise InputError(f"the column {min(twice)!r} appears twice; give it one place")
        if not self.columns:
            raise InputError("there is no column to predict from; list at least one")
        if isinstance(self.target, Categories) and len(self.target.values) < 2:
            raise InputError(
                f"the target {self.target_name!r} has one class; there must be at least two"
            )

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels of the target; None for a regression."""
        return self.target.values if isinstance(self.target, Categories) else None

    @property
    def task(self) -> Task:
        """Regression for a numeric target; binary for two labels, multiclass for more."""
        if self.labels is None:
            return "regression"
        return "binary" if len(self.labels) == 2 else "multiclass"

    @property
    def half_range(self) -> float:
        """Half the width of a numeric target's range, in its units; 1 for labels."""
        return self.target.width / 2 if isinstance(self.target, Numeric) else 1.0


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def read_bounds(path: Path) -> Bounds:
    """Return the public facts that a TOML file states.

    Raises
    ------
    InputError
        If the file cannot be read, is not TOML, or states too little or too much; the message names
        the file, the column and the fix.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"the bounds file {path} cannot be read ({reason})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the bounds file {path} is not valid TOML ({error})") from error
    try:
        return bounds_from_dict(values)
    except InputError as error:
        raise InputError(f"bounds file {path}: {error}") from error


def bounds_from_dict(values: Mapping[str, Any]) -> Bounds:
    """Return the public facts that plain values state, the inverse of `bounds_to_dict`.

    Examples
    --------
    >>> bounds_from_dict({
    ...     "source": "public",
    ...     "target": {"name": "ill", "values": ["no", "yes"]},
    ...     "columns": {"age": {"min": 0, "max": 120}},
    ... }).columns
    {'age': Numeric(minimum=0.0, maximum=120.0)}
    """
    _only(values, {"source", "ignore", "target", "columns"}, "the file")
    origin = values.get("source")
    if origin not in get_args(Origin):
        raise InputError(
            'source must be "public" (ranges known beforehand) or "data" (filled in from the data)'
        )
    target, columns = values.get("target"), values.get("columns")
    if not isinstance(target, dict) or not isinstance(target.get("name"), str):
        raise InputError("[target] with a name, and with min and max or values, is missing")
    if not isinstance(columns, dict):
        raise InputError("no column is described; add [columns.NAME] with min and max, or values")
    return Bounds(
        cast(Origin, origin),
        target["name"],
        _fact(target["name"], {k: v for k, v in target.items() if k != "name"}),
        {name: _fact(name, fact) for name, fact in columns.items()},
        _texts("ignore", values.get("ignore", [])),
    )


def bounds_to_dict(bounds: Bounds) -> dict[str, Any]:
    """Return plain values from which `bounds_from_dict` makes the same bounds."""
    return {
        "source": bounds.origin,
        "ignore": list(bounds.ignored),
        "target": {"name": bounds.target_name, **_plain(bounds.target)},
        "columns": {name: _plain(fact) for name, fact in bounds.columns.items()},
    }


def bounds_text(bounds: Bounds) -> str:
    """Return the bounds as a TOML file that `read_bounds` reads."""
    values = bounds_to_dict(bounds)
    lines = [_ABOUT[bounds.origin] + f"source = {_toml(bounds.origin)}"]
    if bounds.ignored:
        lines.append(f"ignore = {_toml(values['ignore'])}")
    lines += ["", "[target]", *_entries(values["target"])]
    for name, fact in values["columns"].items():
        lines += ["", f"[columns.{_toml(name)}]", *_entries(fact)]
    return "\n".join(lines) + "\n"


def _plain(fact: Numeric | Categories) -> dict[str, Any]:
    if isinstance(fact, Numeric):
        return {"min": fact.minimum, "max": fact.maximum}
    return {"values": list(fact.values)}


def _entries(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_toml(value)}" for name, value in values.items()]


def _toml(value: Any) -> str:
    # JSON texts, numbers and lists are TOML, but for one control character
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


def _fact(name: str, values: Any) -> Numeric | Categories:
    if not isinstance(values, dict) or set(values) not in ({"min", "max"}, {"values"}):
        raise InputError(f"column {name!r} needs min and max (numbers), or values (a list of text)")
    try:
        if "values" in values:
            return Categories(_texts("values", values["values"]))
        return Numeric(_number(values["min"]), _number(values["max"]))
    except InputError as error:
        raise InputError(f"column {name!r}: {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError("min and max must be numbers, without quotes")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError("min and max must be finite numbers") from error


def _texts(what: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
        raise InputError(f"{what} must be a list of text in quotes or whole numbers")
    return tuple(str(value).strip() for value in values)


def _only(values: Mapping[str, Any], known: set[str], where: str) -> None:
    extra = sorted(set(values) - known)
    if extra:
        raise InputError(f"{where} has {extra[0]!r}; it may have {', '.join(sorted(known))}")
