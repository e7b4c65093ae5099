"""What is public about the columns of a table: ranges, lists of categories, labels."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from taciturn.errors import InputError
from taciturn.tables.coding import (
    CODING_OF_NUMBERS,
    CODING_OF_TEXT,
    coding_to_dict,
    numbers_coding,
    text_coding,
)
from taciturn.tables.dates import day_text, number_of
from taciturn.tables.facts import Categories, Numeric, repeated
from taciturn.tables.form import Form
from taciturn.tables.missing import FILL, INDICATOR, missing_of, missing_to_dict, shortened, texts
from taciturn.typing import Interval, Task

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

_PROPOSED = (
    "# Entries behind a # are proposals, and nothing uses them as they stand: bins beside a\n"
    "# number for what no straight line says, and the logarithm of an amount. Take the # away\n"
    "# where they suit.\n#"
)


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
    form
        How files of text are written: it says which number a cell such as 1.234 is.
    interval
        What the range of a numeric column is mapped to: "symmetric", [-1, 1], or "unit", [0, 1],
        where the least value stands for nothing, as in counts that are mostly 0. The range of a
        numeric target is mapped to [-1, 1] always.

    Raises
    ------
    InputError
        If a column appears twice, there is no column, there are fewer than two labels, or the
        target may have missing cells, or has a scale, bins, a centre or a weight.
    """

    origin: Origin
    target_name: str
    target: Numeric | Categories
    columns: Mapping[str, Numeric | Categories]
    ignored: tuple[str, ...] = ()
    form: Form = field(default_factory=Form)
    interval: Interval = "symmetric"

    def __post_init__(self) -> None:
        named = [self.target_name, *self.columns, *self.ignored]
        twice = repeated(named)
        if twice:
            raise InputError(f"the column {min(twice)!r} appears twice; give it one place")
        if not self.columns:
            raise InputError("there is no column to predict from; list at least one")
        if isinstance(self.target, Numeric) and self.target.accepts_missing:
            raise _never_missing(self.target_name)
        coded = sorted(coding_to_dict(self.target))
        if coded:
            raise _never_coded(self.target_name, coded[0])
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

    Where they state no interval it is "symmetric".

    Examples
    --------
    >>> bounds_from_dict({
    ...     "source": "public",
    ...     "target": {"name": "ill", "values": ["no", "yes"]},
    ...     "columns": {"age": {"min": 0, "max": 120}},
    ... }).columns["age"].maximum
    120.0
    """
    _only(values, {"source", "format", "interval", "ignore", "target", "columns"}, "the file")
    origin = values.get("source")
    if origin not in get_args(Origin):
        raise InputError(
            'source must be "public" (ranges known beforehand) or "data" (filled in from the data)'
        )
    interval = values.get("interval", "symmetric")
    if interval not in get_args(Interval):
        raise InputError(
            'interval must be "symmetric" (numbers are mapped to [-1, 1]) or "unit" (to [0, 1])'
        )
    target, columns, form = (values.get(name) for name in ("target", "columns", "format"))
    if form is not None and not isinstance(form, dict):
        raise InputError("format is a section: [format], and below it delimiter and the like")
    if not isinstance(target, dict) or not isinstance(target.get("name"), str):
        raise InputError("[target] with a name, and with min and max or values, is missing")
    if not isinstance(columns, dict):
        raise InputError("no column is described; add [columns.NAME] with min and max, or values")
    return Bounds(
        cast(Origin, origin),
        target["name"],
        _aim(target["name"], {k: v for k, v in target.items() if k != "name"}),
        {name: _fact(name, fact) for name, fact in columns.items()},
        texts("ignore", values.get("ignore", [])),
        Form().changed(form or {}),
        cast(Interval, interval),
    )


def bounds_to_dict(bounds: Bounds) -> dict[str, Any]:
    """Return plain values from which `bounds_from_dict` makes the same bounds."""
    form = bounds.form.different()
    return {
        "source": bounds.origin,
        "interval": bounds.interval,
        **({"format": form} if form else {}),
        "ignore": list(bounds.ignored),
        "target": {"name": bounds.target_name, **_plain(bounds.target)},
        "columns": {name: _plain(fact) for name, fact in bounds.columns.items()},
    }


@dataclass(frozen=True)
class Notes:
    """What is said about columns in a file to start from.

    Attributes
    ----------
    left_out
        Why a column is not used, by its name.
    remarks
        What is to be looked at in a column, by its name.
    proposals
        Entries that a column might have, by its name; they are written as comments.
    """

    left_out: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    proposals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def bounds_text(bounds: Bounds, notes: Notes | None = None) -> str:
    """Return the bounds as a TOML file that `read_bounds` reads, with notes as comments."""
    notes = notes or Notes()
    values = bounds_to_dict(bounds)
    lines = [_ABOUT[bounds.origin] + f"source = {_toml(bounds.origin)}"]
    if notes.proposals:
        lines.insert(0, _PROPOSED)
    if bounds.interval != "symmetric":
        lines.append(f"interval = {_toml(bounds.interval)}")
    if notes.left_out:
        lines += ["", "# Left out, and why:"]
        lines += [f"#   {_toml(name)}: {why}" for name, why in notes.left_out.items()]
    if bounds.ignored:
        lines.append(f"ignore = {_toml(values['ignore'])}")
    if "format" in values:
        lines += ["", "[format]", *_entries(values["format"])]
    sections = {"target": bounds.target_name} | {f"columns.{_toml(n)}": n for n in bounds.columns}
    stated = [values["target"], *values["columns"].values()]
    for (section, name), fact in zip(sections.items(), stated, strict=True):
        remarks = [f"# {text}" for text in notes.remarks.get(name, ())]
        written = fact if section == "target" else shortened(fact)
        proposed = [f"# {text}" for text in _entries(notes.proposals.get(name, {}))]
        lines += ["", f"[{section}]", *remarks, *_entries(written), *proposed]
    return "\n".join(lines) + "\n"


def _plain(fact: Numeric | Categories) -> dict[str, Any]:
    values: dict[str, Any]
    if isinstance(fact, Numeric):
        values = {"min": fact.minimum, "max": fact.maximum}
        values |= {"date": fact.date} if fact.date is not None else {}
    else:
        values = {"values": list(fact.values)}
        values |= {name: True for name in ("fold_case", "strip") if getattr(fact, name)}
    return values | missing_to_dict(fact) | coding_to_dict(fact)


def _entries(values: Mapping[str, Any]) -> list[str]:
    def said(name: str, value: Any) -> str:
        dated = "date" in values and name in {"min", "max"}
        return f"{_toml(value)}  # {day_text(value)}" if dated else _toml(value)

    return [f"{name} = {said(name, value)}" for name, value in values.items()]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(name)} = {_toml(part)}" for name, part in value.items())
        return f"{{ {', '.join(pairs)} }}"
    # JSON texts, numbers and lists are TOML, but for one control character
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _toml(name)


_OF_NUMBERS = frozenset({"min", "max", "date", "missing"}) | CODING_OF_NUMBERS
_OF_TEXT = frozenset({"values", "fold_case", "strip", "missing"}) | CODING_OF_TEXT


def _fact(name: str, values: Any) -> Numeric | Categories:
    given = set(values) if isinstance(values, dict) else set()
    numeric = {"min", "max"} <= given
    if numeric == ("values" in given) or (given & {"min", "max"} and not numeric):
        raise InputError(f"column {name!r} needs min and max (numbers), or values (a list of text)")
    try:
        _only(values, _OF_NUMBERS if numeric else _OF_TEXT, "it")
        return _range(values) if numeric else _list(values)
    except InputError as error:
        raise InputError(f"column {name!r}: {error}") from error


def _aim(name: str, values: Mapping[str, Any]) -> Numeric | Categories:
    coded = sorted(set(values) & CODING_OF_NUMBERS)
    if coded:
        raise _never_coded(name, coded[0])
    fact = _fact(name, values)
    if missing_of(values.get("missing", [])).treated:
        raise _never_missing(name)
    return fact


def _never_coded(name: str, what: str) -> InputError:
    return InputError(
        f"{what} is given for the target {name!r}; it is for columns to predict from: take it out"
    )


def _never_missing(name: str) -> InputError:
    return InputError(
        f'missing of the target {name!r} is "{INDICATOR}" or "{FILL}"; a record without a target '
        "teaches nothing, so drop such rows, and list spellings alone"
    )


def _range(values: Mapping[str, Any]) -> Numeric:
    pattern = values.get("date")
    if not isinstance(pattern, str | None):
        raise InputError('date must be text in quotes, as in "%Y-%m-%d"')
    missing = missing_of(values.get("missing", []))
    dated = pattern is not None
    ends = "min and max must be numbers"
    least, most = (number_of(values[name], ends, dated=dated) for name in ("min", "max"))
    coding = numbers_coding(values, dated=dated)
    plain = Numeric(least, most, pattern, missing.of_numbers, **coding)
    if missing.treated is None:
        return plain
    fill = plain.filled if missing.treated == FILL else None
    if missing.fill is not None:
        fill = number_of(missing.fill, "fill must be a number", dated=dated)
    return replace(plain, indicator=missing.treated == INDICATOR, fill=fill)


def _list(values: Mapping[str, Any]) -> Categories:
    flags = {name: values.get(name, False) for name in ("fold_case", "strip")}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise InputError(f"{name} must be true or false, without quotes")
    listed, missing = texts("values", values["values"]), missing_of(values.get("missing", []))
    if missing.fill is not None or missing.treated == FILL:
        raise InputError(
            "fill is for numbers; a missing cell of a list is a category of its own: write "
            f'missing = "{INDICATOR}"'
        )
    if missing.treated and "" not in listed:
        listed = ("", *listed)
    coding = text_coding(values, listed)
    return Categories(listed, **flags, missing=missing.spellings or (), **coding)


def _only(values: Mapping[str, Any], known: AbstractSet[str], where: str) -> None:
    extra = sorted(set(values) - known)
    if extra:
        raise InputError(f"{where} has {extra[0]!r}; it may have {', '.join(sorted(known))}")
