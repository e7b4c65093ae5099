"""What a training works on, whether it comes from a data set or from a user's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from tacit.datasets import Dataset, Split, split
from tacit.problems import Problem, Shards, pack, random_partition
from tacit.proposal.options import (
    DEFAULT_LOSS,
    constraint_named,
    loss_named,
    regulariser_named,
)
from tacit.proposal.request import Request, check_structure
from tacit.proposal.structures import structure_named
from tacit.tables import Table
from tacit.typing import HostArray, Precision


@dataclass(frozen=True, eq=False)
class Material:
    """A problem, the records it is solved on, and whose they are.

    Attributes
    ----------
    parts
        Training and test records; the test part of a table may be empty.
    owners
        The training rows of each agent.
    """

    dataset: Dataset | Table
    problem: Problem
    parts: Split
    owners: tuple[Int[HostArray, "_m"], ...]

    @property
    def has_test(self) -> bool:
        """Whether there are test records."""
        return len(self.parts.test_targets) > 0


def material(dataset: Dataset | Table, request: Request) -> Material:
    """Return what a request is carried out on.

    A data set is split by the split seed; a table comes divided, and so do records with owners.
    Rows without owners are dealt out at random by the same seed.

    Raises
    ------
    InputError
        If the loss does not suit the targets, or there are fewer rows than agents.
    """
    problem, parts = problem_for(dataset, request), _parts(dataset, request)
    owners = dataset.owners
    if owners is None:
        count = len(parts.train_targets)
        owners = tuple(random_partition(count, request.agents, seed=request.split_seed))
    return Material(dataset, problem, parts, owners)


def problem_for(dataset: Dataset | Table, request: Request) -> Problem:
    """Return the problem of a request; the loss is the one that suits the targets by default."""
    check_structure(request)
    name = request.loss or DEFAULT_LOSS[dataset.task]
    loss = loss_named(name, dataset.task, dataset.classes)
    if request.structure is not None:
        parts = _parts(dataset, request)
        return structure_named(loss, request, dataset.feature_names, parts).composed
    return Problem(
        loss,
        regulariser_named(request.regulariser),
        constraint_named(request.constraint),
    )


def share_out(material: Material, *, precision: Precision = "float32") -> Shards:
    """Return the agents' training rows, clipped to the record norm."""
    return pack(
        material.parts.train_features,
        material.parts.train_targets,
        material.owners,
        record_norm=material.dataset.record_norm,
        precision=precision,
        enforce="clip",
    )


def pack_test(material: Material) -> Shards:
    """Return the test rows as those of one agent, clipped like training rows."""
    return pack(
        material.parts.test_features,
        material.parts.test_targets,
        [np.arange(len(material.parts.test_targets))],
        record_norm=material.dataset.record_norm,
        precision="float64",
        enforce="clip",
    )


def _parts(dataset: Dataset | Table, request: Request) -> Split:
    if isinstance(dataset, Dataset) and dataset.owners is None:
        return split(dataset, seed=request.split_seed)
    return _divided(dataset)


def _divided(dataset: Dataset | Table) -> Split:
    x, y, cut = dataset.features, dataset.targets, dataset.train_rows
    return Split(x[:cut], y[:cut], x[cut:], y[cut:])
