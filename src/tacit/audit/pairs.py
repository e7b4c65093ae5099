"""Two data sets from the author of a question, and in what they are neighbours."""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError
from tacit.privacy import Relation, ReplaceOne, ZeroOut
from tacit.problems import Shards, check_norms

# two data sets that differ in one unit
DataPair = tuple[Shards, Shards]


def changed_places(pair: DataPair, relation: Relation) -> int | None:
    """Return how many records of one agent differ as the relation allows; None if otherwise.

    Under replace_one the same places hold records in both; under zero_out a record of one is absent
    from the other.

    Raises
    ------
    InputError
        If they differ in counts, dimension, precision or record norm, a row breaks that norm, or
        they are equal.
    """
    first, second = pair
    same = (
        first.counts == second.counts
        and first.record_norm == second.record_norm
        and first.stacked.features.shape == second.stacked.features.shape
        and first.stacked.features.dtype == second.stacked.features.dtype
    )
    if not same:
        raise InputError(
            "the two data sets differ in counts, columns, precision or record norm, which are "
            "public; pack both in the same way"
        )
    for one in pair:
        check_norms(one.stacked, one.record_norm)
    here, there = (np.asarray(one.stacked.mask) > 0 for one in pair)
    rows = np.any(np.asarray(first.stacked.features != second.stacked.features), axis=-1)
    values = rows | np.asarray(first.stacked.targets != second.stacked.targets)
    different = (here != there) | (here & there & values)
    if not np.any(different):
        raise InputError("the two data sets are equal; let them differ in what is protected")
    if np.count_nonzero(np.any(different, axis=1)) > 1:
        return None
    absent = here != there
    fits = not np.any(absent)
    if isinstance(relation, ZeroOut):
        fits = bool(np.array_equal(absent, different))
    elif not isinstance(relation, ReplaceOne):
        fits = False
    return int(np.count_nonzero(different)) if fits else None
