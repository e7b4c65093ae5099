"""What is read of two files that differ in one record, by what a user calls, and compared.

Of a neighbour either all other records are the same to the bit, with the same owners, or the file
is refused, and then whatever the other records are.
"""

from dataclasses import dataclass

import numpy as np

from taciturn.errors import InputError
from taciturn.tables import Source, read_files, table_of


@dataclass(frozen=True, eq=False)
class Read:
    """What is read of a file: each row to the bit, and whose it is."""

    rows: list
    persons: list
    sites: list

    def others(self, place, count):
        """Return what is read of all records but that at a place, of so many."""
        behind = len(self.rows) - (count - 1 - place)
        kept = [*range(place), *range(max(place, behind), len(self.rows))]
        rows, persons, sites = (
            [some[k] for k in kept] for some in (self.rows, self.persons, self.sites)
        )
        # which rows go together, whatever number or name that person has
        return rows, [persons.index(one) for one in persons], [sites.index(one) for one in sites]


def reader(path, known, **how):
    """Return a function from the bytes of a file to what is read of it, or the refusal."""

    def read(raw):
        path.write_bytes(raw)
        source = Source(
            path=path, target=known.target_name, bounds=None, person_column="who",
            agent_column="site", **how,
        )  # fmt: skip
        try:
            files = read_files(source, known)
            table = table_of(files)
        except InputError as error:
            return str(error)
        sites = np.empty(table.train_rows, int)
        for number, rows in enumerate(table.owners):
            sites[rows] = number
        pairs = zip(table.features, table.targets, strict=True)
        rows = [(features.tobytes(), target.tobytes()) for features, target in pairs]
        return Read(rows, table.persons.tolist(), sites.tolist())

    return read


def compared(read, bases, neighbours, place, *, well_written=True):
    """Return "same", "refused", or what is wrong with a record at a place of two files.

    Parameters
    ----------
    bases
        What is read of two files without a record in common.
    neighbours
        Those files with the record.
    """
    changed = read(neighbours[0])
    if not isinstance(changed, str):
        base, count = bases[0], len(bases[0].rows)
        return "same" if base.others(place, count) == changed.others(place, count) else "differs"
    # a quote that is left open is missed wherever the file has its next one: the words differ
    other = read(neighbours[1])
    refused = other == changed if well_written else isinstance(other, str)
    return "refused" if refused else f"refused otherwise: {changed}"


def fuzzed(read, bases, cases):
    """Return how often a record was read beside the same others, refused, or anything else."""
    seen = [read(base) for base in bases]
    assert not any(isinstance(one, str) for one in seen), seen
    told = [compared(read, seen, *case[:2], well_written=case[2]) for case in cases]
    return {what: told.count(what) for what in set(told)}
