"""The records of a training, whether they come from a data set or from a user's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int

from tacit.datasets import Dataset, Split, split
from tacit.errors import InputError
from tacit.features import AroundCentre, FeatureMap, Inputs, applied, feature_map_named
from tacit.problems import Shards, check_held_out, hold_out, pack, random_partition
from tacit.proposal import (
    DataFacts,
    Proposal,
    Request,
    StructureRequest,
    propose,
)
from tacit.tables import Files, Numeric, Table, inputs_of
from tacit.typing import HostArray, Precision

DEFAULT_AGENTS = 10


@dataclass(frozen=True, eq=False)
class DividedData:
    """Records, divided into training and test parts and among agents.

    Attributes
    ----------
    parts
        Training and test records; the test part of a table may be empty.
    owners
        The training rows of each agent.
    split_seed
        The public seed of both divisions.
    features
        The feature map that the rows of the parts went through, if any.
    features_name
        Its name, as in a proposal; a centre that was learned besides is not in it.
    held_out
        The rows of each agent that are held out for an evaluation, and are not among those of
        `owners`; empty if nothing is held out.
    """

    dataset: Dataset | Table
    parts: Split
    owners: tuple[Int[HostArray, "_m"], ...]
    split_seed: int
    features: FeatureMap | None = None
    features_name: str | None = None
    held_out: tuple[Int[HostArray, "_h"], ...] = ()

    def __post_init__(self) -> None:
        check_held_out(self.owners, self.held_out)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the parts."""
        return self.dataset.feature_names if self.features is None else self.features.names

    @property
    def facts(self) -> DataFacts:
        """The public facts about the records, except their counts."""
        return data_facts(self.dataset, self.features_name)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many records each agent trains on."""
        return tuple(len(rows) for rows in self.owners)

    @property
    def held_out_counts(self) -> tuple[int, ...]:
        """How many records each agent holds out; empty if nothing is held out."""
        return tuple(len(rows) for rows in self.held_out)

    @property
    def all_counts(self) -> tuple[int, ...]:
        """How many records each agent has, with those that are held out."""
        held = self.held_out_counts or (0,) * len(self.owners)
        return tuple(kept + out for kept, out in zip(self.counts, held, strict=True))

    def evaluated(self) -> Shards:
        """Return the rows that are held out, clipped like training rows; agents without are out."""
        rows, targets = self.parts.train_features, self.parts.train_targets
        some = [part for part in self.held_out if len(part)]
        return self._packed(rows, targets, some, "float64")

    @cached_property
    def test(self) -> Shards:
        """The test rows as those of one agent, clipped like training rows."""
        x, y = self.parts.test_features, self.parts.test_targets
        return self._packed(x, y, [np.arange(len(y))], "float64")

    def shards(self, precision: Precision, *, centre: bool = False) -> Shards:
        """Return the agents' training rows, clipped to the record norm.

        Parameters
        ----------
        centre
            Whether a column of zeros stands beside them, the place of the constant around a centre.
        """
        rows = self.parts.train_features
        if centre:
            rows = np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)
        return self._packed(rows, self.parts.train_targets, self.owners, precision)

    def around(self, centre: HostArray) -> DividedData:
        """Return the same records as rows around a centre."""
        chained = AroundCentre(inputs_for(self.dataset), self.features, centre)
        parts = self.parts._replace(
            train_features=chained.around(self.parts.train_features),
            test_features=chained.around(self.parts.test_features),
        )
        return replace(self, parts=parts, features=chained)

    def _packed(
        self, x: HostArray, y: HostArray, owners: Sequence[HostArray], precision: Precision
    ) -> Shards:
        norm = self.dataset.record_norm if self.features is None else self.features.record_norm
        return pack(x, y, owners, record_norm=norm, precision=precision, enforce="clip")


def divide(
    dataset: Dataset | Table,
    agents: int | None,
    *,
    split_seed: int,
    default: int = DEFAULT_AGENTS,
    features: str | None = None,
    evaluate: float | None = None,
) -> DividedData:
    """Return the records, divided into training and test parts and among agents.

    A data set is split by the split seed; tables and records with owners are split already. Rows
    without owners are distributed at random by the same seed.

    Parameters
    ----------
    agents
        The number of agents; None for `default`, and for records that have owners.
    features
        The name of a public feature map, computed of every row; None for the columns themselves.
    evaluate
        The share of each agent's rows to hold out (`tacit.problems.hold_out`); None for none.

    Raises
    ------
    InputError
        If a number of agents is given for records that have owners, there are more agents than
        records, or the feature map does not suit them.
    """
    feature_map = None if features is None else feature_map_named(features, inputs_for(dataset))
    parts = _parts(dataset, split_seed, feature_map)
    owners = _owners(dataset.owners, len(parts.train_targets), agents, default, split_seed)
    held: tuple[HostArray, ...] = ()
    if evaluate is not None:
        owners, held = hold_out(owners, evaluate, seed=split_seed)
    return DividedData(dataset, parts, owners, split_seed, feature_map, features, held)


def _parts(dataset: Dataset | Table, split_seed: int, feature_map: FeatureMap | None) -> Split:
    if isinstance(dataset, Dataset) and dataset.owners is None:
        return split(dataset, seed=split_seed, rows=_features(dataset, feature_map))
    x, y, cut = _features(dataset, feature_map), dataset.targets, dataset.train_rows
    return Split(x[:cut], y[:cut], x[cut:], y[cut:])


def _features(dataset: Dataset | Table, feature_map: FeatureMap | None) -> HostArray:
    """Return the rows that are learned from; only those of published records are kept on disk."""
    if feature_map is None:
        return dataset.features
    published = isinstance(dataset, Dataset) and dataset.public
    if published and feature_map.costly:
        return applied(feature_map, dataset.features)
    return feature_map.apply(dataset.features)


def _owners(
    known: tuple[Int[HostArray, "_m"], ...] | None,
    rows: int,
    agents: int | None,
    default: int,
    split_seed: int,
) -> tuple[Int[HostArray, "_m"], ...]:
    if known is not None:
        if agents is not None:
            raise InputError(
                f"the records belong to {len(known)} agents already; leave --agents out"
            )
        return known
    count = default if agents is None else agents
    if count > rows:
        raise InputError(
            f"{count} agents cannot share {rows} training records; ask for at most {rows}"
        )
    return tuple(random_partition(rows, count, seed=split_seed))


def proposal_ahead(
    files: Files,
    request: Request,
    structure: StructureRequest,
    *,
    agents: int | None,
    default: int = DEFAULT_AGENTS,
    features: str | None = None,
) -> Proposal:
    """Return the proposal of a request on the records of files of which no cell was looked at.

    It is that of `proposal_for` on the same records.

    Raises
    ------
    InputError
        If a graph is to be learned from records.
    """
    if structure.graph_from is not None:
        raise InputError(
            "--graph-from reads records before anything is charged; with an account give --graph"
        )
    facts = DataFacts.of(files.bounds, features)
    counts = counts_ahead(files, agents, default, split_seed=request.split_seed)
    names = facts.inputs.names if facts.feature_map is None else facts.feature_map.names
    return propose(facts, counts, request, structure.structure(names, None))


def counts_ahead(
    files: Files, agents: int | None, default: int = DEFAULT_AGENTS, *, split_seed: int
) -> tuple[int, ...]:
    """Return how many records each agent will have."""
    owners = _owners(files.owners, files.rows, agents, default, split_seed)
    return tuple(len(rows) for rows in owners)


def inputs_for(dataset: Dataset | Table) -> Inputs:
    """Return what a feature map must know of the columns."""
    if isinstance(dataset, Table):
        return inputs_of(dataset.bounds)
    numbers = dataset.numbers if dataset.interval == "symmetric" else ()
    return Inputs(
        dataset.feature_names, dataset.record_norm, numbers, constant=None, picture=dataset.picture
    )


def proposal_for(data: DividedData, request: Request, structure: StructureRequest) -> Proposal:
    """Return the proposal of a request on these records; see `propose`.

    Notes
    -----
    **Guarantee.** Only columns, counts and bounds are read, unless the graph of the structure is to
    be learned from records; the certificate then says so.
    """
    rows = None
    if structure.graph_from == "test":
        rows = data.parts.test_features
    elif structure.graph_from == "private":
        # the order of the file, whoever owns a row; none that is held out
        rows = data.parts.train_features[np.sort(np.concatenate(data.owners))]
    content = structure.structure(data.names, rows)
    return propose(data.facts, data.all_counts, request, content)


def target_scale(dataset: Dataset | Table) -> tuple[float, float]:
    """Return s and b with which an encoded number y stands for s y + b in the target's units."""
    if isinstance(dataset, Table) and isinstance(dataset.bounds.target, Numeric):
        target = dataset.bounds.target
        return dataset.bounds.half_range, target.minimum + target.width / 2
    return 1.0, 0.0


def data_facts(dataset: Dataset | Table, features: str | None = None) -> DataFacts:
    """Return the public facts about a data set or a table with its features, but no counts."""
    if isinstance(dataset, Table):
        return DataFacts.of(dataset.bounds, features)
    return DataFacts(
        name=dataset.name,
        task=dataset.task,
        classes=dataset.classes,
        columns=len(dataset.feature_names),
        record_norm=dataset.record_norm,
        table=None,
        numbers=len(inputs_for(dataset).numbers),
        picture=dataset.picture,
        features=features,
    )


def check_data(data: DividedData, proposal: Proposal) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts."""
    check_known(data.facts, data.all_counts, proposal)
    planned = () if proposal.evaluation is None else proposal.evaluation.counts
    if data.held_out_counts != planned:
        raise InputError(
            f"the proposal holds out {sum(planned)} records for an evaluation, the data "
            f"{sum(data.held_out_counts)}; divide the data with the share of the proposal"
        )


def check_known(facts: DataFacts, counts: tuple[int, ...], proposal: Proposal) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts.

    Parameters
    ----------
    counts
        Records of each agent, with those that are held out.
    """
    if _apart_from_form(facts) != _apart_from_form(proposal.data):
        raise InputError(
            f"the proposal is for {proposal.data.name!r} with {proposal.data.columns} encoded "
            f"columns, and its facts differ from those of {facts.name!r} with {facts.columns}; "
            "name the data it was made for"
        )
    if counts != proposal.all_counts:
        raise InputError(
            f"the proposal is for {len(proposal.counts)} agents with {proposal.records} "
            f"records in all, the data have {len(counts)} with {sum(counts)}, or "
            "share them otherwise; propose again"
        )


def _apart_from_form(facts: DataFacts) -> DataFacts:
    """Return the facts without the form of the files, which privacy does not rest on."""
    if facts.table is None:
        return facts
    return facts.model_copy(update={"table": facts.table.model_copy(update={"form": None})})
