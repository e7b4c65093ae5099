"""What is public about one column: the range of its numbers, or the list of its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.tables.dates import check_pattern
from tacit.typing import Interval

# spellings of an empty cell in any case of their letters, none of which is a number
USUAL_MISSING = (
    "na", "n/a", "n.a.", "nan", "null", "none", "missing", "#n/a", "#null!", "-", "--", "?", ".",
)  # fmt: skip
# characters that take no room and that Python does not count as white space
_INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")


@dataclass(frozen=True)
class Numeric:
    """A number from `minimum` to `maximum`; what lies outside is clipped.

    Attributes
    ----------
    date
        How dates are written, as in "%Y-%m-%d"; a date counts as its days since 1970-01-01. None
        for a column of numbers.
    missing
        Spellings that count as an empty cell, in any case of their letters.
    indicator
        Whether cells may be empty and a further encoded column says which of them are.
    fill
        What an empty cell counts as; cells may then be empty, with an indicator or without. None
        for the middle of the range where `indicator` is set, and for no empty cells otherwise.

    Raises
    ------
    InputError
        Unless `minimum` < `maximum`, both are at most 1e100 in size, and they differ by more than
        a billionth of it: coefficients per unit would lose their digits otherwise. If `date` says
        no date, `missing` has an empty spelling or one twice, or `fill` lies outside the range.
    """

    minimum: float
    maximum: float
    date: str | None = None
    missing: tuple[str, ...] = ()
    indicator: bool = False
    fill: float | None = None

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
            check_pattern(self.date)
        _check_missing(self.missing)
        if self.fill is not None and not self.minimum <= self.fill <= self.maximum:
            raise InputError(
                f"fill is {self.fill:g} and the range is from {self.minimum:g} to "
                f"{self.maximum:g}; give a number inside it, or leave fill out for the middle"
            )

    @property
    def accepts_missing(self) -> bool:
        """Whether cells may be empty."""
        return self.indicator or self.fill is not None

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.minimum + self.width / 2

    @property
    def filled(self) -> float:
        """What an empty cell counts as, if cells may be empty: `fill`, or the middle."""
        return self.middle if self.fill is None else self.fill

    @property
    def width(self) -> float:
        """The difference of the two ends, in the units of the column."""
        return self.maximum - self.minimum

    def zero_and_unit(self, interval: Interval) -> tuple[float, float]:
        """Return (c, h): a number x inside the range [a, b] is encoded as (x - c) / h.

        The middle and half the width for [-1, 1], "symmetric"; a and the width for [0, 1], "unit".

        Examples
        --------
        >>> Numeric(20.0, 70.0).zero_and_unit("symmetric")
        (45.0, 25.0)
        """
        if interval == "unit":
            return self.minimum, self.width
        return self.middle, self.width / 2


@dataclass(frozen=True)
class Categories:
    """One of `values`, which are compared as text.

    Attributes
    ----------
    values
        Every text that may occur. The empty text, if listed, stands for an empty cell, which is
        then a category like any other.
    fold_case
        Whether capital and small letters count as the same.
    strip
        Whether invisible characters and repeated white space do not count. White space around a
        cell never does.
    missing
        Spellings that count as an empty cell.

    Raises
    ------
    InputError
        If there are no values, two are the same as they are compared, or one is listed under
        `missing` too, which may not have an empty spelling or one twice.
    """

    values: tuple[str, ...]
    fold_case: bool = False
    strip: bool = False
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("the list of values is empty; name every value that may occur")
        twice = repeated(map(self.compared, self.values))
        if twice:
            raise InputError(
                f"the value {min(twice)!r} is listed twice{self._how()}; list each value once"
            )
        _check_missing(self.missing)
        both = {self.compared(v) for v in self.values} & {self.compared(m) for m in self.missing}
        if both:
            raise InputError(f"{min(both)!r} is one of values and of missing; take it out of one")

    def compared(self, text: str) -> str:
        """Return the text in the spelling in which it is compared.

        Examples
        --------
        >>> Categories(("New York",), fold_case=True, strip=True).compared("NEW  york")
        'new york'
        """
        if self.strip:
            text = " ".join(text.translate(_INVISIBLE).split())
        return text.casefold() if self.fold_case else text

    def _how(self) -> str:
        used = [name for name in ("fold_case", "strip") if getattr(self, name)]
        return f", with {' and '.join(used)}" if used else ""


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def _check_missing(spellings: tuple[str, ...]) -> None:
    if "" in spellings:
        raise InputError('missing has ""; an empty cell is missing anyway, so take it out')
    twice = repeated(spellings)
    if twice:
        raise InputError(f"missing has {min(twice)!r} twice; list each spelling once")
