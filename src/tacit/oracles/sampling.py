"""What an oracle that samples must show before amplification is credited to it."""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError
from tacit.oracles.batches import BatchOracle
from tacit.oracles.oracle import Oracle, Size
from tacit.privacy import Adjacency, Norm, ReplaceOne, SensitivityBound, ZeroOut
from tacit.spec import Spec
from tacit.typing import HostArray


def check_sampling(
    oracle: Oracle,
    bound: SensitivityBound,
    *,
    spec: Spec,
    norm: Norm,
    size: Size,
    values: dict[str, HostArray],
) -> None:
    r"""Raise unless a rate below 1 comes with what the accountant of `Sampled` relies on.

    Raises
    ------
    InputError
        If the oracle names a rate and draws no batch, if the unit is an agent, or if under
        replace_one the bound is less than twice that of zeroing a record. If it draws otherwise
        than `BatchOracle` while saying that it is one, or names a fixed size and is none, or the
        relation is not replace_one there.

    Notes
    -----
    **Guarantee.** The accountant takes an answer under replace_one for a sum whose terms have norm
    at most Delta / 2: the present record's term against the other's, both around the answer of an
    absent one. The bound under zero_out is that of one term, :math:`\Delta_0`. If Delta were below
    :math:`2 \Delta_0`, terms longer than Delta / 2 could occur, and their tails are not covered:
    for terms in [0, 1], Delta = 1, and the pair (absent or 1, absent or 0) leaks more than the pair
    (absent or 1/2, absent or -1/2) that would be accounted for.
    """
    if oracle.sampling_rate == 1:
        return
    name, adjacency = type(oracle).__name__, bound.adjacency
    if type(oracle).batch is Oracle.batch:
        raise InputError(
            f"{name} names a sampling rate and draws no batch; override batch, or sampling_rate not"
        )
    if adjacency.unit != "record":
        raise InputError(f"{name} samples records, which hides no agent; use the unit record")
    _check_draw(oracle, name)
    if oracle.batch_size is not None:
        if not isinstance(adjacency.relation, ReplaceOne):
            raise InputError(f"{name} has batches of a fixed size, which need replace_one")
        return  # any two answers at that distance are covered
    if not isinstance(adjacency.relation, ReplaceOne):
        return
    zeroed = Adjacency(ZeroOut(), adjacency.unit)
    one = oracle.bound(spec, zeroed, norm=norm, size=size, values=values)
    if not np.all(bound.value >= 2 * one.value * (1 - 1e-12)):
        raise InputError(
            f"{name} bounds a replaced record by less than twice a zeroed one, for which no "
            "accountant of sampled answers is known; return twice the bound of zero_out"
        )


def _check_draw(oracle: Oracle, name: str) -> None:
    kind, base = type(oracle), BatchOracle
    own = isinstance(oracle, BatchOracle)
    same = own and kind.draw is base.draw and kind.exact_on is base.exact_on
    if own and (not same or kind.batch is not base.batch):
        raise InputError(
            f"{name} draws its batches itself, otherwise than they are accounted for; leave draw, "
            "batch and exact_on to BatchOracle"
        )
    if not own and oracle.batch_size is not None:
        raise InputError(f"{name} names a fixed size of its batches; derive it from BatchOracle")
