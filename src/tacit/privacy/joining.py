"""The ledger of several runs on the same records, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.errors import InputError, PrivacyError
from tacit.privacy.ledger import NO_QUESTION, Ledger
from tacit.privacy.mechanisms import Gaussian
from tacit.typing import HostArray


def joined(ledgers: Sequence[Ledger]) -> Ledger:
    """Return one ledger with the answers of all, each agent's rounds one after the other.

    Raises
    ------
    InputError
        If there is none, the agents are not as many, or the answers of one have no mu.

    Notes
    -----
    **Guarantee.** Answers of several runs on the same records are answers of one run in which they
    are given in sequence, whatever the later ones were asked in the light of: Gaussian ones compose
    exactly (`tacit.privacy.compose`). Where answers differ in how many numbers they have, the most
    is taken, which makes neither a movement nor a correction of the arithmetic smaller.
    """
    agents = {len(ledger.kind) for ledger in ledgers}
    if len(agents) != 1:
        raise InputError(f"there are ledgers of {sorted(agents)} agents; join those of the same")
    plain = all(isinstance(one.mechanism, Gaussian) and one.has_mu for one in ledgers)
    if not plain:
        raise InputError(
            "runs are joined where all noise is Gaussian and added to answers on all records; "
            "leave out methods that sample records or have noise inside an objective, and give a "
            "finite epsilon"
        )
    if len({ledger.on_lattice for ledger in ledgers}) > 1:
        raise PrivacyError("some of these runs stood on a lattice and some did not; plan them anew")
    width = max(ledger.kind.shape[2] for ledger in ledgers)
    return Ledger(
        kind=_stacked([one.kind for one in ledgers], width, NO_QUESTION),
        sensitivity=_stacked([one.sensitivity for one in ledgers], width, 0),
        scale=_stacked([one.scale for one in ledgers], width, 0),
        mechanism=Gaussian(),
        step=_stacked([one.steps for one in ledgers], width, 0),
        values=max(one.values for one in ledgers),
    )


def _stacked(parts: Sequence[HostArray], width: int, empty: int) -> HostArray:
    """Return arrays of shape (A, T, E) as one, with places added up to the largest E."""
    padded = [
        np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2])), constant_values=empty)
        for part in parts
    ]
    return np.concatenate(padded, axis=1)
