"""Public facts about a table: ranges, categories and labels; and their TOML file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from taciturn.checks import repeated
from taciturn.errors import InputError
from taciturn.tables.columns import (
    CODING,
    FILL,
    INDICATOR,
    LEAVE_OUT,
    USUAL_MISSING,
    Categories,
    Column,
    Numeric,
    column_from_dict,
    missing_entries,
    toml_texts,
)
from taciturn.tables.form import Form, day_text
from taciturn.typing import Interval, Task

Origin: TypeAlias = Literal["public", "data"]

_ABOUT: Mapping[Origin, str] = {
    "data": (
        "# These values were computed from the records themselves. A run with them is certified\n"
        "# only on the condition that they would be the same whatever one record says. Replace\n"
        "# them by ranges and lists known before the records were read, for example from a code\n"
        '# book, and then write source = "public".\n'
    ),
    "public": "# These values were known before the records were read.\n",
}

_PROPOSED = (
    "# Commented entries are proposals: bins for an effect that is not linear in the number, and\n"
    "# the logarithm of an amount. Remove the # where they suit.\n#"
)

_LEFT_OUT = (
    "# Left out, and why. To learn from one, take it out of ignore and describe it as\n"
    "# [columns.NAME], with min and max, or with values:"
)


@dataclass(frozen=True)
class Bounds:
    """The public facts about a table.

    - `origin`: "public", known before the records were read, or "data", computed from the records,
      which makes every certificate conditional.
    - `target`: A range (regression) or at least two labels (classification), without scale, bins,
      centre or weight.
    - `columns`: The columns to predict from, in the order of the model's coefficients.
    - `ignored`: Names of other columns of the table, and patterns such as `date_*` (`is_ignored`).
    - `interval`: The image of a numeric column's range: "symmetric", [-1, 1], or "unit", [0, 1],
      suited to counts that are mostly 0. A numeric target is always mapped to [-1, 1].
    - `leave_out`: Whether rows without a target are left out of every answer, not refused. They
      count among the records of their agent, whose number is public.
    """

    origin: Origin
    target_name: str
    target: Column
    columns: Mapping[str, Column]
    ignored: tuple[str, ...] = ()
    form: Form = field(default_factory=Form)
    interval: Interval = "symmetric"
    leave_out: bool = False

    def __post_init__(self) -> None:
        twice = repeated([self.target_name, *self.columns, *self.ignored])
        if twice:
            raise InputError(f"the column {min(twice)!r} appears twice; give it one place")
        if not self.columns:
            raise InputError("there is no column to predict from; list at least one")
        if isinstance(self.target, Numeric) and self.target.accepts_missing:
            raise _never_missing(self.target_name)
        if self.target.coding:
            raise _never_coded(self.target_name, min(self.target.coding))
        if isinstance(self.target, Categories) and len(self.target.values) < 2:
            raise InputError(
                f"the target {self.target_name!r} has one class; there must be at least two"
            )
        if self.leave_out and self.labels is not None and "" in self.labels:
            raise InputError(
                f"an empty target {self.target_name!r} is one of its values and left out; take it "
                "out of the values, or do not leave such rows out"
            )

    @property
    def described(self) -> dict[str, Column]:
        """The columns to predict from, then the target, by name."""
        return {**self.columns, self.target_name: self.target}

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


def is_ignored(name: str, ignored: Sequence[str]) -> bool:
    """Whether a column is one of `ignored`, or matches one as a pattern with *, ? and [...].

    Examples
    --------
    >>> [is_ignored(name, ("note", "date_*")) for name in ("note", "date_of_birth", "Date_1")]
    [True, True, False]
    """
    return name in ignored or any(fnmatchcase(name, pattern) for pattern in ignored)


def read_bounds(path: Path) -> Bounds:
    """Read public facts from a TOML file; errors name the file and the column."""
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
    """Return the public facts in plain values; the inverse of `bounds_to_dict`."""
    known = {"source", "format", "interval", "ignore", "target", "columns"}
    extra = set(values) - known
    if extra:
        raise InputError(f"the file has {min(extra)!r}; it may have {', '.join(sorted(known))}")
    origin: Any = values.get("source")
    if origin not in get_args(Origin):
        raise InputError(
            'source must be "public" (ranges known in advance) or "data" (computed from the data)'
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
    name, stated = target["name"], {k: v for k, v in target.items() if k != "name"}
    described = {column: column_from_dict(column, fact) for column, fact in columns.items()}
    ignored = toml_texts("ignore", values.get("ignore", []))
    form = Form().changed(form or {})
    missing: Any = stated.get("missing")
    leave_out = LEAVE_OUT in (missing, missing.get("as") if isinstance(missing, dict) else None)
    if leave_out:
        stated["missing"] = missing.get("spellings", []) if isinstance(missing, dict) else []
    target = _target(name, stated)
    return Bounds(origin, name, target, described, ignored, form, interval, leave_out)


def _target(name: str, values: Mapping[str, Any]) -> Column:
    coded = set(values) & CODING
    if coded:  # even at its default value
        raise _never_coded(name, min(coded))
    column = column_from_dict(name, values)
    if "as" in missing_entries(values):
        raise _never_missing(name)
    return column


def bounds_to_dict(bounds: Bounds) -> dict[str, Any]:
    """Return the bounds as plain values, for `bounds_from_dict`."""
    form, target = bounds.form.different(), bounds.target.to_dict()
    if bounds.leave_out:
        target["missing"] = {"as": LEAVE_OUT, "spellings": target.get("missing", [])}
    return {
        "source": bounds.origin,
        "interval": bounds.interval,
        **({"format": form} if form else {}),
        "ignore": list(bounds.ignored),
        "target": {"name": bounds.target_name, **target},
        "columns": {name: column.to_dict() for name, column in bounds.columns.items()},
    }


@dataclass(frozen=True)
class Notes:
    """Comments of a drafted file, by column: why it is left out, remarks and proposed entries."""

    left_out: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    proposals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def bounds_text(bounds: Bounds, notes: Notes | None = None) -> str:
    """Return the bounds as TOML text for `read_bounds`, with notes as comments."""
    notes = notes or Notes()
    values = bounds_to_dict(bounds)
    lines = [_ABOUT[bounds.origin] + f"source = {_toml(bounds.origin)}"]
    if notes.proposals:
        lines.insert(0, _PROPOSED)
    if bounds.interval != "symmetric":
        lines.append(f"interval = {_toml(bounds.interval)}")
    if notes.left_out:
        lines += ["", _LEFT_OUT]
        lines += [f"#   {_toml(name)}: {why}" for name, why in notes.left_out.items()]
    if bounds.ignored:
        lines.append(f"ignore = {_toml(values['ignore'])}")
    if "format" in values:
        lines += ["", "[format]", *_entries(values["format"])]
    sections = {"target": bounds.target_name} | {f"columns.{_toml(n)}": n for n in bounds.columns}
    stated = [values["target"], *values["columns"].values()]
    for (section, name), fact in zip(sections.items(), stated, strict=True):
        remarks = [f"# {text}" for text in notes.remarks.get(name, ())]
        written = fact if section == "target" else _short_form(fact)
        proposed = [f"# {text}" for text in _entries(notes.proposals.get(name, {}))]
        lines += ["", f"[{section}]", *remarks, *_entries(written), *proposed]
    return "\n".join(lines) + "\n"


def _short_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return equivalent entries of a column in short form, as written by hand."""
    listed, missing = values.get("values"), values.get("missing")
    if listed is not None and listed[0] == "" and len(listed) > 1:
        entry = {"as": INDICATOR, "spellings": missing} if missing else INDICATOR
        return {**values, "values": listed[1:], "missing": entry}
    if listed is not None or not isinstance(missing, dict):
        return dict(values)
    short = {k: v for k, v in missing.items() if (k, v) != ("spellings", list(USUAL_MISSING))}
    return {**values, "missing": INDICATOR if short == {"as": INDICATOR} else short}


def _entries(values: Mapping[str, Any]) -> list[str]:
    lines = {name: f"{name} = {_toml(value)}" for name, value in values.items()}
    for name in ("min", "max") if "date" in values else ():
        lines[name] += f"  # {day_text(values[name])}"
    return list(lines.values())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        bare = re.compile("[A-Za-z0-9_-]+").fullmatch
        pairs = (f"{k if bare(k) else _toml(k)} = {_toml(part)}" for k, part in value.items())
        return f"{{ {', '.join(pairs)} }}"
    # JSON strings, numbers and lists are valid TOML, except for one control character
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


def _never_coded(name: str, what: str) -> InputError:
    return InputError(
        f"{what} is given for the target {name!r}; it is for columns to predict from: take it out"
    )


def _never_missing(name: str) -> InputError:
    return InputError(
        f'missing of the target {name!r} is "{INDICATOR}" or "{FILL}"; a record without a target '
        f'cannot be learned from, so write missing = "{LEAVE_OUT}", or drop such rows'
    )
