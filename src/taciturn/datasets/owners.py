"""Records dealt to agents, with the public facts from which a run is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from taciturn.errors import InputError
from taciturn.kernel.records import Parts, Shards, origin_of, pack
from taciturn.typing import HostArray, Precision


class RecordFacts(NamedTuple):
    """What every observer knows of the records.

    - `counts`: The number of records of each agent.
    - `features`: D, the number of entries of a row.
    - `record_norm`: R, the norm that every row is cut to.
    - `dealt`: Whether records without owners were dealt to several agents at random.
    """

    counts: tuple[int, ...]
    features: int
    record_norm: float
    dealt: bool


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """Training records, divided among agents, and test records that belong to nobody.

    - `features`, `targets`: Training records, (N, D) and (N,).
    - `parts`: The training rows of each agent.
    - `record_norm`: The norm that every row is cut to when agents pack their rows.
    - `test_features`, `test_targets`: (K, D) and (K,); K may be 0. No certificate covers what is
      computed from them.
    - `conditions`: What is taken as public of the records; a certificate of a run holds under it.
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    parts: Parts
    record_norm: float
    test_features: Float[HostArray, "K D"]
    test_targets: Num[HostArray, "K"]
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        widths = {np.shape(rows)[1:] for rows in (self.features, self.test_features)}
        if len(widths) != 1:
            raise InputError(
                f"training and test rows have the shapes {self.features.shape} and "
                f"{self.test_features.shape}; give both the same columns"
            )

    def __repr__(self) -> str:
        facts = self.facts
        return (
            f"{sum(facts.counts):,} records of {len(facts.counts)} agents, {facts.features} "
            f"features, record norm {facts.record_norm:g}; {len(self.test_targets):,} test records"
        )

    @property
    def facts(self) -> RecordFacts:
        """The public facts; no record is read."""
        counts = tuple(len(part) for part in self.parts)
        dealt = origin_of(self.parts).dealt
        return RecordFacts(counts, self.features.shape[1], self.record_norm, dealt)

    def shards(self, precision: Precision) -> Shards:
        """Return the records of every agent, each row cut to the record norm by itself."""
        return pack(
            self.features,
            self.targets,
            self.parts,
            record_norm=self.record_norm,
            precision=precision,
            enforce="clip",
        )
