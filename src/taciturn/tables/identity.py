"""Whose a row is: an identity that does not depend on how a file stores its column."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from decimal import Context, Decimal, DecimalException

import numpy as np
import pandas as pd

from taciturn.errors import InputError
from taciturn.tables.form import Form

# more digits than any identity has; a longer one stays text
_EXACT = Context(prec=400)
TEXT, WHOLE, INEXACT = "text", "whole numbers", "numbers that are not whole or not exact"
_COMPARED = frozenset({TEXT, WHOLE})


def identities(
    column: str, kinds: AbstractSet[str], names: Collection[str], form: Form
) -> list[str]:
    """Return the identity in each row of a column that says which person a row is about.

    `names` are its texts, row by row, and `kinds` how the files store it (`kind_of`).

    **Guarantee.** All rows of a person must have one identity: a person with two has twice K
    places, and is protected half as well. Persons that share one are protected together, so what
    may be the same is made the same: cells that read as one number, 7 and 7.0 and 007, or 1,234 and
    1234 with commas between thousands, whether a file stores them as numbers or as text, and texts
    that are one in Unicode's composed form. A float that may stand for several whole numbers could
    be one of them elsewhere, and is refused.
    """
    if INEXACT in kinds:
        raise InputError(
            f"column {column!r} says whose a row is, by {INEXACT}; store it as text or as whole "
            "numbers"
        )
    if len(kinds) > 1 and not kinds <= _COMPARED:
        raise InputError(
            f"column {column!r} says whose a row is, and the files store it in ways that cannot be "
            f"compared ({', '.join(sorted(kinds))}); store it as text in all of them"
        )
    same = {name: canonical(name, form) for name in set(names)}
    return [same[name] for name in names]


def canonical(text: str, form: Form) -> str:
    """Return one text for all that read as the same number, other text in Unicode's composed form.

    The form is NFC: some systems write an accent apart from its letter, and others do not.
    """
    read = "" if form.plain else form.reader()(text)
    try:
        number = Decimal(read or text.replace(form.decimal, "."))
        short = number.is_finite() and len(number.as_tuple().digits) <= _EXACT.prec
        return str(_EXACT.add(number.normalize(_EXACT), 0)) if short else text
    except DecimalException:
        return unicodedata.normalize("NFC", text)


def kind_of(column: pd.Series) -> str:
    """Return how a column is stored, in words; missing cells say nothing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return kind_of(column.cat.categories.to_series())
    present = column.dropna()
    if pd.api.types.is_bool_dtype(column.dtype):
        return "truth values"
    if pd.api.types.is_integer_dtype(column.dtype):
        return WHOLE
    if pd.api.types.is_float_dtype(column.dtype):
        values = present.to_numpy()
        exact = 2.0 ** (np.finfo(values.dtype).nmant + 1)
        whole = np.all((np.abs(values) < exact) & (np.trunc(values) == values))
        return WHOLE if whole else INEXACT
    types = set(map(type, present))
    if types <= {str}:
        return TEXT
    return WHOLE if types <= {int, Decimal} else ", ".join(sorted(one.__name__ for one in types))
