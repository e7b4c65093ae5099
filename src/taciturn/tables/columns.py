"""Public facts about a column: the range of its numbers, or the list of its values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
from jaxtyping import Float

from taciturn.checks import repeated
from taciturn.errors import InputError
from taciturn.tables.form import check_date_pattern, toml_number
from taciturn.typing import HostArray, Interval

T = TypeVar("T")
Scale: TypeAlias = Literal["linear", "log"]


class Curve(NamedTuple):
    """An increasing function s, of arrays and of one number, and its inverse."""

    of_array: Callable[[HostArray], HostArray]
    of_number: Callable[[float], float]
    inverse: Callable[[float], float]


def _identity(number: T) -> T:
    return number


_LINEAR = Curve(_identity, _identity, _identity)
_LOG = Curve(np.log, math.log, math.exp)
_LOG_FROM_0 = Curve(np.log1p, math.log1p, math.expm1)
# from the least value of a column to the function of its scale
_CURVES: Mapping[Scale, Callable[[float], Curve]] = MappingProxyType(
    {"linear": lambda _: _LINEAR, "log": lambda least: _LOG if least > 0 else _LOG_FROM_0}
)
UNIFORM: Literal["uniform"] = "uniform"
INDICATOR, FILL = "indicator", "fill"  # treatments of missing cells
LEAVE_OUT = "leave out"  # of a target: the row enters no answer
MOST_BINS, MOST_WEIGHT = 1000, 1000.0

# spellings of an empty cell, compared without case; none is a number
USUAL_MISSING = (
    "na", "n/a", "n.a.", "nan", "null", "none", "missing", "#n/a", "#null!", "-", "--", "?", ".",
)  # fmt: skip
CODING = frozenset({"scale", "bins", "centre", "weight"})
_NUMERIC_KEYS = frozenset({"min", "max", "date", "missing"}) | CODING
_TEXT_KEYS = frozenset({"values", "fold_case", "strip", "missing", "centre", "weight"})
_ROUNDING, _WEIGHT = 1e-9, "weight must be a number"
# zero-width characters that Python does not count as white space
_INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")
# without leading zeros, which belong to codes such as 007
_WHOLE = re.compile(r"(-?)(0|[1-9]\d*)(?:\.0*)?", re.ASCII)
_TRUTH = {"false": "0", "true": "1"}


@dataclass(frozen=True)
class Numeric:
    """A number from `minimum` to `maximum`; other numbers are clipped.

    Both ends are at most 1e100 in size and differ by more than a billionth of it, else coefficients
    per unit would lose precision.

    - `date`: The pattern of dates, such as "%Y-%m-%d"; a date is converted to days since
      1970-01-01. None for a column of numbers.
    - `missing`: Spellings of a missing cell, besides the empty cell; case is ignored.
    - `indicator`: Whether cells may be missing, marked in a further encoded column.
    - `fill`: The value imputed for a missing cell, with or without an indicator. None: with an
      indicator, `centre` or the middle of the range; otherwise missing cells are refused.
    - `scale`: "log" is log x if `minimum` is above 0, log(1 + x) if it is 0 (`on_scale`).
    - `bins`: One-hot bins in addition to the number: the number of bins of equal width on its
      scale, or their inner edges in its units. An edge belongs to the bin above it.
    - `centre`: The value encoded as 0; None for the middle of the range on its scale, or, for the
      interval "unit", its least value.
    - `weight`: Multiplies the encoded number, its indicator and its bins.
    """

    minimum: float
    maximum: float
    date: str | None = None
    missing: tuple[str, ...] = ()
    indicator: bool = False
    fill: float | None = None
    scale: Scale = "linear"
    bins: int | tuple[float, ...] | None = None
    centre: float | None = None
    weight: float = 1.0

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
        if self.date is not None:
            check_date_pattern(self.date)
        _check(self.missing, self.weight)
        for name, value in (("fill", self.fill), ("centre", self.centre)):
            if value is not None and not self.minimum <= value <= self.maximum:
                raise InputError(
                    f"{name} is {value:g} and the range is from {self.minimum:g} to "
                    f"{self.maximum:g}; give a number inside it, or leave {name} out for the middle"
                )
        self._check_coding()

    def _check_coding(self) -> None:
        stated = f'scale is "{self.scale}" and'
        if self.scale != "linear" and self.date is not None:
            raise InputError(f"{stated} date is given; dates count as days: leave one out")
        if self.scale != "linear" and self.minimum < 0:
            raise InputError(
                f"{stated} min is {self.minimum:g}; numbers below 0 have no place on it, so give a "
                "min of 0 or more, or leave scale out"
            )
        if isinstance(self.bins, int) and not 2 <= self.bins <= MOST_BINS:
            raise InputError(
                f"bins is {self.bins}; give a number from 2 to {MOST_BINS}, or inner edges in "
                "brackets, as in bins = [1, 5, 20]"
            )
        if isinstance(self.bins, tuple):
            ends = (self.minimum, *self.bins, self.maximum)
            rising = all(low < high for low, high in pairwise(ends))
            if not rising or not 0 < len(self.bins) < MOST_BINS:
                raise InputError(
                    f"bins has {len(self.bins)} edges that do not increase from above min, "
                    f"{self.minimum:g}, to below max, {self.maximum:g}; give from 1 to "
                    f"{MOST_BINS - 1} edges inside the range, each above the one before"
                )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Numeric:
        """Return the column that the entries of a bounds file state."""
        date, scale, bins = values.get("date"), values.get("scale", "linear"), values.get("bins")
        if not isinstance(date, str | None):
            raise InputError('date must be text in quotes, as in "%Y-%m-%d"')
        if scale not in get_args(Scale):
            raise InputError(f"scale must be {' or '.join(map(json.dumps, get_args(Scale)))}")
        number = partial(toml_number, dated=date is not None)
        if isinstance(bins, list):
            bins = tuple(number(edge, "edges in bins must be numbers") for edge in bins)
        elif "bins" in values and type(bins) is not int:
            raise InputError(
                "bins must be a whole number, or inner edges in brackets, as in bins = [1, 5, 20]"
            )
        missing = missing_entries(values)
        given = {"fill": missing.get("fill"), "centre of a range": values.get("centre")}
        fill, centre = (
            x if x is None else number(x, f"{name} must be a number") for name, x in given.items()
        )
        low, high = (number(values[end], "min and max must be numbers") for end in ("min", "max"))
        treated, weight = missing.get("as"), toml_number(values.get("weight", 1), _WEIGHT)
        spellings = missing.get("spellings", USUAL_MISSING if treated else ())
        indicator = treated == INDICATOR
        column = cls(low, high, date, spellings, indicator, fill, scale, bins, centre, weight)
        return replace(column, fill=column.filled) if treated == FILL else column

    def to_dict(self) -> dict[str, Any]:
        """Return the entries from which `from_dict` reads the same column."""
        values: dict[str, Any] = {"min": self.minimum, "max": self.maximum}
        values |= {} if self.date is None else {"date": self.date}
        missing: Any = list(self.missing)
        if self.accepts_missing:
            fill = {} if self.fill is None else {"fill": self.fill}
            missing = {"as": INDICATOR if self.indicator else FILL, "spellings": missing, **fill}
        return values | ({"missing": missing} if missing else {}) | self.coding

    @property
    def coding(self) -> dict[str, Any]:
        """The entries of the encoding that differ from the default."""
        bins = list(self.bins) if isinstance(self.bins, tuple) else self.bins
        stated = {"scale": self.scale, "bins": bins, "centre": self.centre, "weight": self.weight}
        return {name: value for name, value in stated.items() if value != getattr(Numeric, name)}

    @property
    def accepts_missing(self) -> bool:
        """Whether cells may be missing."""
        return self.indicator or self.fill is not None

    @property
    def middle(self) -> float:
        """The middle of the range on its scale, in the units of the column."""
        low, high = self.ends
        found = self.curve.inverse(low + (high - low) / 2)
        return min(max(found, self.minimum), self.maximum)

    @property
    def filled(self) -> float:
        """The value imputed for a missing cell: `fill`, `centre`, or the middle."""
        given = self.centre if self.fill is None else self.fill
        return self.middle if given is None else given

    @property
    def width(self) -> float:
        """The width of the range, in the units of the column."""
        return self.maximum - self.minimum

    @property
    def curve(self) -> Curve:
        """The function s of the column's scale."""
        return _CURVES[self.scale](self.minimum)

    def on_scale(self, numbers: Float[HostArray, "N"]) -> Float[HostArray, "N"]:
        """Return s(x) of numbers inside the range: x, log x, or log(1 + x) if `minimum` is 0."""
        # an array may be rounded otherwise than a number
        return np.clip(self.curve.of_array(numbers), *self.ends)

    @property
    def ends(self) -> tuple[float, float]:
        """s(a) and s(b), the two ends of the range on its scale."""
        return self.curve.of_number(self.minimum), self.curve.of_number(self.maximum)

    @property
    def edges_on_scale(self) -> tuple[float, ...]:
        """The inner edges of the bins on the scale; none without bins."""
        if isinstance(self.bins, tuple):
            return tuple(self.on_scale(np.array(self.bins)).tolist())
        low, high = self.ends
        count = self.bins or 1
        return tuple(low + (high - low) * k / count for k in range(1, count))

    @property
    def edges(self) -> tuple[float, ...]:
        """The inner edges in the units of the column: 10 and 100 of 3 log bins from 1 to 1000."""
        if isinstance(self.bins, tuple):
            return self.bins
        return tuple(float(f"{self.curve.inverse(edge):.12g}") for edge in self.edges_on_scale)

    def zero_and_unit(self, interval: Interval) -> tuple[float, float]:
        """Return (c, h): a number x in the range [a, b] is encoded as (s(x) - c) / h.

        Without a centre, "symmetric" maps s(a) and s(b) to -1 and 1, "unit" to 0 and 1. With a
        centre z, c = s(z) and h is the distance to the farther end. The weight divides h.
        """
        low, high = self.ends
        if self.centre is not None:
            zero = float(self.on_scale(np.array([self.centre]))[0])
            return zero, max(high - zero, zero - low) / self.weight
        if interval == "unit":
            return low, (high - low) / self.weight
        return low + (high - low) / 2, (high - low) / 2 / self.weight


@dataclass(frozen=True)
class Categories:
    """One of `values`, compared as text and distinct.

    - `values`: All possible texts. The empty text, if listed, is a separate category, a missing
      cell. If all others are whole numbers, then 0, 0.0 and 0. are one value (`whole_text`), and if
      all are 0 or 1, so are false and 0, and true and 1, in any case.
    - `fold_case`: Whether the comparison ignores case.
    - `strip`: Whether the comparison ignores invisible characters and repeated white space. Leading
      and trailing white space is always ignored.
    - `missing`: Spellings of a missing cell.
    - `centre`: Subtracted from a one-hot row: "uniform", 1 over the number of values, or a public
      share of each value, in their order; None for nothing.
    - `weight`: Multiplies the resulting row.
    """

    values: tuple[str, ...]
    fold_case: bool = False
    strip: bool = False
    missing: tuple[str, ...] = ()
    centre: Literal["uniform"] | tuple[float, ...] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("the list of values is empty; name every value that may occur")
        twice = repeated(map(self.compared, self.values))
        if twice:
            flags = [name for name in ("fold_case", "strip") if getattr(self, name)]
            how = f", with {' and '.join(flags)}" if flags else ""
            how += ", as 0 and 0.0 are one number" if self.whole else ""
            raise InputError(f"the value {min(twice)!r} is listed twice{how}; list each value once")
        _check(self.missing, self.weight)
        both = set(map(self.compared, self.missing))
        both &= set(map(self.compared, self.values if both else ()))
        if both:
            raise InputError(f"{min(both)!r} is one of values and of missing; take it out of one")
        shares = self.shares
        if len(shares) != len(self.values) or not all(0 <= share <= 1 for share in shares):
            raise InputError(
                f"centre has {len(shares)} shares for {len(self.values)} values; give each value a "
                "share from 0 to 1"
            )
        if (total := math.fsum(shares)) > 1 + _ROUNDING:
            raise InputError(f"centre has shares that sum to {total:g}; they sum to 1 at most")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Categories:
        """Return the column that the entries of a bounds file state."""
        flags = {name: values.get(name, False) for name in ("fold_case", "strip")}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise InputError(f"{name} must be true or false, without quotes")
        listed, missing = toml_texts("values", values["values"]), missing_entries(values)
        if missing.get("fill") is not None or missing.get("as") == FILL:
            raise InputError(
                "fill is for numbers; a missing cell of a list is a category of its own: write "
                f'missing = "{INDICATOR}"'
            )
        if "as" in missing and "" not in listed:
            listed = ("", *listed)
        return cls(
            listed,
            **flags,
            missing=missing.get("spellings", ()),
            centre=_shares(values["centre"], listed) if "centre" in values else None,
            weight=toml_number(values.get("weight", 1), _WEIGHT),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries from which `from_dict` reads the same column."""
        flags = {name: True for name in ("fold_case", "strip") if getattr(self, name)}
        missing = {"missing": list(self.missing)} if self.missing else {}
        return {"values": list(self.values), **flags, **missing, **self.coding}

    @property
    def coding(self) -> dict[str, Any]:
        """The entries of the encoding that differ from the default."""
        centre: Any = self.centre
        if isinstance(centre, tuple):
            centre = {v: share for v, share in zip(self.values, centre, strict=True) if share}
        entries = {} if centre is None else {"centre": centre}
        return entries | ({} if self.weight == 1 else {"weight": self.weight})

    @property
    def accepts_missing(self) -> bool:
        """Whether cells may be missing."""
        return "" in self.values

    @property
    def shares(self) -> tuple[float, ...]:
        """The values subtracted from the entries of a one-hot row."""
        if self.centre is None:
            return (0.0,) * len(self.values)
        if self.centre == UNIFORM:
            return (1 / len(self.values),) * len(self.values)
        return self.centre

    @cached_property
    def whole(self) -> bool:
        """Whether all values that are not empty are whole numbers."""
        stated = [value for value in self.values if value]
        return bool(stated) and all(map(_WHOLE.fullmatch, stated))

    @cached_property
    def _truth(self) -> Mapping[str, str]:
        few = self.whole and len(self.values) <= 3
        numbers = {whole_text(value) for value in self.values if value} if few else {"2"}
        return _TRUTH if numbers <= {"0", "1"} else {}

    def compared(self, text: str, *, pointed: bool = True) -> str:
        """Return the normalised text for comparison, a function of this text and the values.

        `pointed`: whether a point in it is that of a number.
        """
        if self.strip:
            text = " ".join(text.translate(_INVISIBLE).split())
        if self.whole:
            text = self._truth.get(text.casefold(), text)
            # digits alone are in the short form already
            known = text.isdecimal() or not pointed
            text = text if known else whole_text(text) or text
        return text.casefold() if self.fold_case else text


Column: TypeAlias = Numeric | Categories


def whole_text(text: str) -> str | None:
    """Return a whole number without its point; None for other text and for leading zeros.

    Examples
    --------
    >>> [whole_text(text) for text in ("7", "7.0", "7.", "-0.0", "007", "7.5", "7e0")]
    ['7', '7', '7', '0', None, None, None]
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    return found[2] if found[2] == "0" else found[1] + found[2]


def column_from_dict(name: str, values: Any) -> Column:
    """Return the column described by entries of a bounds file; the inverse of `to_dict`."""
    given = set(values) if isinstance(values, dict) else set()
    numeric = {"min", "max"} <= given
    if numeric == ("values" in given) or (given & {"min", "max"} and not numeric):
        raise InputError(f"column {name!r} needs min and max (numbers), or values (a list of text)")
    known = _NUMERIC_KEYS if numeric else _TEXT_KEYS
    try:
        if extra := given - known:
            raise InputError(f"it has {min(extra)!r}; it may have {', '.join(sorted(known))}")
        return (Numeric if numeric else Categories).from_dict(values)
    except InputError as error:
        raise InputError(f"column {name!r}: {error}") from error


def missing_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries "as", "spellings" and "fill" of `missing`, those that are given.

    A text alone is "as", and a list alone the spellings.
    """
    stated: Any = values.get("missing", [])
    stated = {"as": stated} if isinstance(stated, str) else stated
    if isinstance(stated, list):
        stated = {"spellings": stated} if stated else {}
    if not isinstance(stated, dict) or not set(stated) <= {"as", "spellings", "fill"}:
        raise InputError(
            'missing must be a list of spellings, "indicator", "fill", or several, as in '
            '{as = "indicator", spellings = ["NA"], fill = 0}'
        )
    if stated.get("as", FILL) not in (INDICATOR, FILL):
        raise InputError(
            f'missing is {stated["as"]!r}; write "{INDICATOR}", "{FILL}", or a list of spellings '
            "in brackets"
        )
    if "fill" in stated and "as" not in stated:
        raise InputError(
            f'fill is given without as; add as = "{FILL}", or as = "{INDICATOR}" for a further '
            "column that marks missing cells"
        )
    if "spellings" in stated:
        stated = {**stated, "spellings": toml_texts("missing", stated["spellings"])}
    return dict(stated)


def toml_texts(what: str, values: Any) -> tuple[str, ...]:
    """Return a list of texts and whole numbers as texts without surrounding blanks."""
    if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
        raise InputError(f"{what} must be a list of text in quotes or whole numbers")
    return tuple(str(value).strip() for value in values)


def _shares(centre: Any, listed: tuple[str, ...]) -> Any:
    if centre == UNIFORM:
        return centre
    if not isinstance(centre, dict):
        raise InputError(
            f'centre of a list must be "{UNIFORM}", or the public share of each value, as in '
            "{ yes = 0.3, no = 0.7 }"
        )
    unknown = sorted(set(centre) - set(listed))
    if unknown:
        raise InputError(
            f"centre has {unknown[0]!r}, which is not one of values; spell it as it is there"
        )
    return tuple(toml_number(centre.get(v, 0), "shares in centre must be numbers") for v in listed)


def _check(spellings: tuple[str, ...], weight: float) -> None:
    if not 0 < weight <= MOST_WEIGHT:
        raise InputError(f"weight is {weight:g}; give a number above 0, at most {MOST_WEIGHT:g}")
    if "" in spellings:
        raise InputError('missing has ""; an empty cell is missing anyway, so take it out')
    twice = repeated(spellings)
    if twice:
        raise InputError(f"missing has {min(twice)!r} twice; list each spelling once")
