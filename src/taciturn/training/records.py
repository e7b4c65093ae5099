"""The records of a training, from a data set or a user's table, and how they are divided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from taciturn import checks
from taciturn.algorithms import COUNTS
from taciturn.datasets import Dataset, Split, divided
from taciturn.errors import InputError
from taciturn.features import (
    COLUMNS,
    CentredRows,
    FeatureMap,
    Inputs,
    LazyRows,
    applied,
    feature_map_named,
)
from taciturn.kernel.records import (
    Devices,
    Draw,
    Origin,
    Parts,
    Persons,
    Shard,
    Shards,
    check_at_agents,
    check_at_one_agent,
    check_held_out,
    hold_out,
    origin_at,
    origin_of,
    pack,
    random_partition,
    shards_of_process,
)
from taciturn.tables import INTERCEPT, Files, Report, Table, TableFile, inputs_of, table_of
from taciturn.training.facts import DataFacts
from taciturn.training.proposal import Proposal
from taciturn.training.request import Request, StructureRequest, option, propose
from taciturn.typing import HostArray, Precision

SIMULATED_AGENTS = 10  # of published records, which have no owners


@dataclass(frozen=True, kw_only=True)
class Division:
    """The division of records: public, and stated before a record is read.

    - `agents`: None for `default`, and for records that have owners.
    - `split_seed`: Public seed of the split of published records into training and test records.
    - `features`: The name of a public feature map, applied to every row; None for the columns
      themselves.
    - `rows_per_person`, `agents_per_person`: K and M of `Adjacency` if persons are protected; K is
      None if records are.
    - `evaluate`: The share of each agent's rows, or persons, to hold out
      (`taciturn.kernel.records.hold_out`).
    """

    agents: int | None = option(
        "Number of agents.",
        int,
        default=None,
        shown=f"1; {SIMULATED_AGENTS} for published data without --structure",
    )
    default: int = 1
    split_seed: int = 0
    features: str | None = None
    rows_per_person: int | None = None
    agents_per_person: int = 1
    evaluate: float | None = None

    @classmethod
    def of_request(cls, request: Request, agents: int | None, **how: Any) -> Division:
        """Return the division that a request needs; `how` is `default`."""
        return cls(
            agents=agents,
            split_seed=request.split_seed,
            rows_per_person=request.rows_per_person,
            agents_per_person=request.agents_per_person,
            evaluate=request.evaluate,
            **how,
        )

    @classmethod
    def of_proposal(cls, proposal: Proposal, *, owned: bool) -> Division:
        """Return the division that a proposal describes, of records that have owners or not."""
        evaluation, budget = proposal.evaluation, proposal.budget
        return cls(
            agents=None if owned else len(proposal.counts),
            split_seed=proposal.split_seed,
            features=proposal.data.features,
            rows_per_person=budget.rows_per_person,
            agents_per_person=budget.agents_per_person,
            evaluate=None if evaluation is None else evaluation.share,
        )

    def counts(
        self,
        known: Sequence[Int[HostArray, "_m"]] | None,
        numbers: HostArray | None,
        rows: int,
    ) -> tuple[int, ...]:
        """Return the number of records of each agent, or places of persons; nothing is drawn.

        `known` and `numbers` are as for `rows`.
        """
        persons = self.persons(numbers)
        if known is not None:
            self._check_owners(known, persons)
            return counts_of(known, persons)
        if persons is None:
            return self._shares(rows, "training records")
        return tuple(persons.rows_per_person * n for n in self._shares(persons.count, "persons"))

    def rows(
        self,
        known: Sequence[Int[HostArray, "_m"]] | None,
        numbers: HostArray | None,
        rows: int,
        draw: Draw,
    ) -> tuple[Sequence[Int[HostArray, "_m"]], Sequence[Int[HostArray, "_h"]], Persons | None]:
        """Return the training rows of each agent, the held-out rows, and the person of each row.

        `known`: the rows of each agent if they have owners. `numbers`: the person of each row.
        """
        persons = self.persons(numbers, draw)
        if known is not None:
            self._check_owners(known, persons)
            owners = known
        elif persons is None:
            owners = random_partition(rows, len(self._shares(rows, "training records")), draw=draw)
        else:
            owners = persons.deal(len(self._shares(persons.count, "persons")), draw)
        if self.evaluate is None:
            return owners, (), persons
        check_at_one_agent(self.agents_per_person)
        return *hold_out(owners, self.evaluate, draw=draw, persons=persons), persons

    def persons(self, numbers: HostArray | None, draw: Draw | None = None) -> Persons | None:
        """Return the person of each row; None if records are protected.

        The draw selects a person's rows. It may be None if they are only counted: a seed then
        replaces it, so a run on them would be stamped as a reproduction.
        """
        most = self.rows_per_person
        if (numbers is None) != (most is None):
            missing = "--rows-per-person K" if most is None else "--person-column COL"
            raise InputError(
                "to protect persons takes a table with a column that says whose each row is, and a "
                f"public number of rows that one has at most; add {missing}, or leave both out"
            )
        if numbers is None or most is None:
            return None
        return Persons(numbers, most, Draw(seed=0) if draw is None else draw)

    def _check_owners(self, known: Sequence[Int[HostArray, "_m"]], persons: Persons | None) -> None:
        if self.agents is not None:
            raise InputError(
                f"the records belong to {len(known)} agents already; leave --agents out"
            )
        if persons is not None:
            check_at_agents(persons.most_agents(known), self.agents_per_person)

    def _shares(self, units: int, what: str) -> tuple[int, ...]:
        """Return the number of units of each agent if these are dealt."""
        agents = self.default if self.agents is None else self.agents
        checks.at_least("agents", agents, 1)
        if agents > units:
            raise InputError(
                f"{agents} agents cannot share {units} {what}; ask for at most {units}"
            )
        least, more = divmod(units, agents)
        return tuple(least + (agent < more) for agent in range(agents))


def counts_of(owners: Sequence[Int[HostArray, "_m"]], persons: Persons | None) -> tuple[int, ...]:
    """Return the number of records of each agent, or places of persons."""
    if persons is None:
        return tuple(len(rows) for rows in owners)
    return tuple(persons.places_of(rows) for rows in owners)


@dataclass(frozen=True, eq=False)
class Counted:
    """Records that are counted but not read: the facts for a proposal, and how to read them.

    - `columns`: The columns to which an account is bound.
    - `facts`, `inputs`: The public facts, except counts and features; what a feature map must know.
    - `all_counts`: Records of each agent, or places of persons, including those to be held out.
    - `owned`: Whether the records have owners.
    - `load`: Reads the records, given a division, a draw, the precision of stored rows and a report
      of rows read.
    - `public`, `conditional`: Whether the records are published, and whether public facts were read
      off them.
    - `files`, `test_files`: The files with training records, and those with test records only.

    **Guarantee.** All fields but `load` follow from public facts: they depend on no cell, and on
    the owners and persons of rows only through counts.
    """

    title: str
    columns: tuple[str, ...]
    division: Division
    facts: DataFacts
    inputs: Inputs
    all_counts: tuple[int, ...]
    owned: bool
    load: Callable[[Division, Draw, Precision, Report | None], DividedData]
    public: bool = False
    conditional: bool = False
    files: tuple[TableFile, ...] = ()
    test_files: tuple[TableFile, ...] = ()

    @property
    def dealt(self) -> bool:
        """Whether records without owners are dealt to several agents."""
        return not self.owned and len(self.all_counts) > 1

    @property
    def rows_per_person(self) -> int | None:
        """K, if persons are protected."""
        return self.division.rows_per_person

    def names_with(self, features: str | None) -> tuple[str, ...]:
        """Return the names of the coordinates of a row with these features."""
        if features is None:
            return self.inputs.names
        return feature_map_named(features, self.inputs).names


def count_data(division: Division, dataset: Dataset | Table) -> Counted:
    """Return the counted records of a data set, or of a table already read."""
    return Counted(
        title=dataset.title,
        columns=dataset.columns,
        division=division,
        facts=data_facts(dataset),
        inputs=inputs_for(dataset),
        all_counts=division.counts(dataset.owners, dataset.persons, dataset.train_rows),
        owned=dataset.owners is not None,
        load=lambda division, draw, _, __: divide_records(dataset, division, draw),
        public=dataset.public,
    )


def count_files(division: Division, files: Files) -> Counted:
    """Return the counted records of a table's files."""

    def load(
        division: Division, draw: Draw, precision: Precision, report: Report | None
    ) -> DividedData:
        return divide_records(table_of(files, precision=precision, report=report), division, draw)

    return Counted(
        title=files.title,
        columns=files.columns,
        division=division,
        facts=DataFacts.of(files.bounds),
        inputs=inputs_of(files.bounds),
        all_counts=division.counts(files.owners, files.persons, files.rows),
        owned=files.owners is not None,
        load=load,
        files=tuple(files.tables.values()),
        test_files=() if files.tests is None else (files.tests,),
    )


@dataclass(frozen=True)
class Local:
    """The devices of a process that holds some agents' records, and the counts of all agents."""

    devices: Devices
    counts: tuple[int, ...]
    held_out: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DividedData:
    """Records, divided into training and test parts and among agents.

    - `parts`: The rows that `owners` and `held_out` number, and test records, of which a table may
      have none. Rows of no agent are not read.
    - `owners`: The training rows of each agent.
    - `features`: The feature map of the rows, if any. The parts hold its output; around a learned
      centre (`CentredRows`) that of its first map, and packing does the rest.
    - `features_name`: Its name, as in a proposal, without a learned centre.
    - `held_out`: The held-out rows of each agent, none of them in `owners`; may be empty.
    - `persons`: The person of each training row, and the places of a person; None if records are
      protected.
    - `absent`: Marks training rows without a target, which enter no answer; None for none.
    - `local`: Set if the rows are only those of this process's agents (`local_part`).
    - `conditional`: Whether public facts were read off the records.
    """

    dataset: Dataset | Table
    parts: Split
    owners: Sequence[Int[HostArray, "_m"]]
    features: FeatureMap | None = None
    features_name: str | None = None
    held_out: Sequence[Int[HostArray, "_h"]] = ()
    persons: Persons | None = None
    absent: Bool[HostArray, "N"] | None = None
    local: Local | None = None
    conditional: bool = False
    # the files were read already
    files: ClassVar[tuple[TableFile, ...]] = ()
    test_files: ClassVar[tuple[TableFile, ...]] = ()

    def __post_init__(self) -> None:
        check_held_out(self.owners, self.held_out, self.persons)

    @property
    def title(self) -> str:
        """As of the data."""
        return self.dataset.title

    @property
    def columns(self) -> tuple[str, ...]:
        """As of the data."""
        return self.dataset.columns

    @property
    def public(self) -> bool:
        """As of the data."""
        return self.dataset.public

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the parts."""
        return self.dataset.feature_names if self.features is None else self.features.names

    @property
    def facts(self) -> DataFacts:
        """The public facts about the records, except their counts."""
        return data_facts(self.dataset).with_features(self.features_name or COLUMNS)

    @property
    def dealt(self) -> bool:
        """Whether records without owners were dealt to several agents."""
        return origin_of(self.owners).dealt

    @property
    def origin(self) -> Origin:
        """Where the training rows come from, as their shards state it."""
        return origin_at(self.owners, self.persons)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many records each agent trains on, or places of persons."""
        return counts_of(self.owners, self.persons) if self.local is None else self.local.counts

    @property
    def rows_per_person(self) -> int | None:
        """K, if persons are protected."""
        return None if self.persons is None else self.persons.rows_per_person

    @property
    def held_out_counts(self) -> tuple[int, ...]:
        """How many records each agent holds out, or places of persons; empty if nothing is."""
        local = self.local
        return counts_of(self.held_out, self.persons) if local is None else local.held_out

    @property
    def all_counts(self) -> tuple[int, ...]:
        """How many records each agent has, with those that are held out."""
        held = self.held_out_counts or (0,) * len(self.counts)
        return tuple(kept + out for kept, out in zip(self.counts, held, strict=True))

    def evaluated(self) -> Shards:
        """Return the rows that are held out, clipped like training rows; agents without are out."""
        some = Parts([part for part in self.held_out if len(part)], origin_of(self.held_out))
        return self._pack(self._rows(), some, "float64", self.held_out_counts)

    @cached_property
    def test(self) -> Shard:
        """The test rows as those of one agent, clipped like training rows."""
        rows, targets = self.parts.test_features, self.parts.test_targets
        owner, norm = [np.arange(len(targets))], self._record_norm
        lazy = LazyRows(rows, self._encode)
        return pack(lazy, targets, owner, record_norm=norm, precision="float64").shard(0)

    def shards(self, precision: Precision, *, centre: bool = False) -> Shards:
        """Return the agents' training rows, clipped to the record norm, in the places of persons.

        With `centre` a column of zeros stands beside them, the place of the constant.
        """
        return self._pack(self._rows(centre=centre), self.owners, precision, self.counts)

    def around(self, centre: HostArray) -> DividedData:
        """Return the same records as rows around a centre."""
        return replace(self, features=CentredRows(inputs_for(self.dataset), self.features, centre))

    def _rows(self, *, centre: bool = False) -> LazyRows:
        """Return the rows that `owners` number, with a column of zeros last for a `centre`."""
        stored = self.parts.train_features
        if centre:
            return LazyRows(stored, lambda rows: np.pad(rows, ((0, 0), (0, 1))))
        return LazyRows(stored, self._encode)

    def _encode(self, stored: HostArray) -> HostArray:
        return self.features.around(stored) if isinstance(self.features, CentredRows) else stored

    def _pack(
        self,
        rows: LazyRows,
        owners: Sequence[HostArray],
        precision: Precision,
        counts: tuple[int, ...],
    ) -> Shards:
        """Return training rows as those of agents with these counts, some of them elsewhere."""
        local = self.local
        packed = pack(
            rows,
            self.parts.train_targets,
            owners,
            record_norm=self._record_norm,
            precision=precision,
            persons=self.persons,
            absent=self.absent,
            longest=0 if local is None else max(counts),
        )
        return packed if local is None else shards_of_process(packed, counts, local.devices)

    @property
    def _record_norm(self) -> float:
        return self.dataset.record_norm if self.features is None else self.features.record_norm


def divide(
    dataset: Dataset | Table, agents: int | None, *, draw: Draw | None = None, **how: Any
) -> DividedData:
    """Return the records, divided as `Division(agents=agents, **how)` states."""
    return divide_records(dataset, Division(agents=agents, **how), draw)


def divide_records(
    dataset: Dataset | Table, division: Division, draw: Draw | None = None
) -> DividedData:
    """Return the records, divided into training and test parts and among agents.

    A published data set is split by the public split seed, a private one by the draw; tables and
    records with owners are split already. Rows without owners are dealt out by the draw, those of a
    person together.

    The draw is a new secret one if None. Divisions of the same records that are compared or add up
    share one.
    """
    draw, name, x = Draw.secret() if draw is None else draw, division.features, dataset.features
    feature_map, y = None, dataset.targets
    if name is not None:
        feature_map = feature_map_named(name, inputs_for(dataset))
        x, y = feature_map.joined(x, y), feature_map.respond(x, y)
        # only features of published records are kept on disk
        published = isinstance(dataset, Dataset) and dataset.public
        x = applied(feature_map, x) if published and feature_map.costly else feature_map.apply(x)
    cut = dataset.train_rows
    owners, held, persons = division.rows(dataset.owners, dataset.persons, cut, draw)
    if isinstance(dataset, Table):
        absent = dataset.absent
        tests = slice(cut, None) if absent is None else np.flatnonzero(~absent[cut:]) + cut
        parts = Split(x[:cut], y[:cut], x[tests], y[tests])
        absent = None if absent is None else absent[:cut]
        return DividedData(dataset, parts, owners, feature_map, name, held, persons, absent)
    train, test = divided(dataset, division.split_seed, draw)
    if dataset.draws_test and not draw.is_secret:
        owners = Parts(owners, replace(origin_of(owners), reproducible=True))
    # numbered as in the data set, whose rows are not copied
    owners, held = (
        Parts([train[rows] for rows in each], origin_of(each)) for each in (owners, held)
    )
    return DividedData(dataset, Split(x, y, x[test], y[test]), owners, feature_map, name, held)


def inputs_for(dataset: Dataset | Table) -> Inputs:
    """Return what a feature map must know of the columns."""
    if isinstance(dataset, Table):
        return inputs_of(dataset.bounds)
    names = dataset.feature_names
    numbers = dataset.numbers if dataset.interval == "symmetric" else ()
    constant = names.index(INTERCEPT) if INTERCEPT in names else None
    return Inputs(names, dataset.record_norm, numbers, constant, dataset.picture)


def proposal_for(
    data: Counted | DividedData, request: Request, structure: StructureRequest
) -> Proposal:
    """Return the proposal of a request on these records, of which no cell is read.

    Divided records have the features that they were divided with.
    """
    if isinstance(data, DividedData):
        request = replace(request, features=data.features_name or COLUMNS)
    features = request.facts_with_features(data.facts).features
    names = data.names if isinstance(data, DividedData) else data.names_with(features)
    content = structure.of_columns(names)
    return propose(data.facts, data.all_counts, request, content, dealt=data.dealt)


def data_facts(dataset: Dataset | Table) -> DataFacts:
    """Return the public facts about a data set or a table, but no counts or features."""
    if isinstance(dataset, Table):
        return DataFacts.of(dataset.bounds)
    return DataFacts(
        name=dataset.name,
        task=dataset.task,
        classes=dataset.classes,
        columns=len(dataset.feature_names),
        record_norm=dataset.record_norm,
        table=None,
        numbers=len(inputs_for(dataset).numbers),
        constant=inputs_for(dataset).constant is not None,
        picture=dataset.picture,
    )


def check_all_hold_out(counts: Sequence[int]) -> None:
    """Raise `InputError` unless all agents of several processes hold records out, or none does."""
    if 0 in counts:
        raise InputError(
            "an agent has too few records to hold some out; among several processes all agents "
            "answer the evaluation, so hold out a larger share"
        )


def local_part(data: DividedData, devices: Devices) -> DividedData:
    """Return the records of this process's agents, and the test records; no others are in it."""
    check_all_hold_out(data.held_out_counts)
    agents = devices.local(len(data.owners))
    owners, held = (each[agents.start : agents.stop] for each in (data.owners, data.held_out))
    kept = np.zeros(len(data.parts.train_targets), bool)
    kept[np.concatenate([*owners, *held])] = True
    place = np.cumsum(kept) - 1
    return replace(
        data,
        dataset=_without_rows(data.dataset),
        parts=data.parts._replace(
            train_features=data.parts.train_features[kept],
            train_targets=data.parts.train_targets[kept],
        ),
        owners=Parts([place[part] for part in owners], origin_of(data.owners)),
        held_out=Parts([place[part] for part in held], origin_of(data.held_out)),
        persons=None if data.persons is None else data.persons.among(kept),
        absent=None if data.absent is None else data.absent[kept],
        local=Local(devices, data.counts, data.held_out_counts),
    )


def _without_rows(dataset: Dataset | Table) -> Dataset | Table:
    """Return a data set of as many rows, all zeros that take no memory: for its public facts."""
    empty, none = (
        np.broadcast_to(np.zeros((), cells.dtype), cells.shape)
        for cells in (dataset.features, dataset.targets)
    )
    if isinstance(dataset, Dataset):
        return replace(dataset, features=empty)
    return replace(dataset, features=empty, targets=none, persons=None, absent=None)


def storage_precision(proposal: Proposal, *, tests: bool) -> Precision:
    """Return the precision in which the encoded rows of a table are stored for a run.

    That of the run, if only its training reads them; features, test rows and held-out rows are
    evaluated in double precision. `tests` says whether there are test records.
    """
    others = proposal.data.features or proposal.evaluation or tests
    return "float64" if others else proposal.precision


def check_data(data: Counted | DividedData, proposal: Proposal) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts.

    Records that are only counted may have the features of any proposal.
    """
    facts = data.facts
    if proposal.method.name == COUNTS and facts.table is None:
        raise InputError(f"the method {COUNTS} is for a table with bounds; use taciturn count")
    if isinstance(data, Counted):
        facts = facts.model_copy(update={"features": proposal.data.features})
    check_known(facts, data.all_counts, proposal, rows_per_person=data.rows_per_person)
    if data.dealt != proposal.dealt:
        done, wanted = ("dealt at random" if it else "given" for it in (data.dealt, proposal.dealt))
        raise InputError(
            f"the proposal is for records whose agents are {wanted}, and those of the data are "
            f"{done}; propose again"
        )
    planned = () if proposal.evaluation is None else proposal.evaluation.counts
    if isinstance(data, DividedData) and data.held_out_counts != planned:
        raise InputError(
            f"the proposal holds out {sum(planned)} records, or places of persons, for an "
            f"evaluation, the data {sum(data.held_out_counts)}; divide the data with the share of "
            "the proposal"
        )


def check_known(
    facts: DataFacts,
    counts: tuple[int, ...],
    proposal: Proposal,
    *,
    rows_per_person: int | None = None,
) -> None:
    """Raise `InputError` unless a proposal is for records with these facts and counts.

    Counts are of records, or places of persons, with those that are held out.
    """
    planned, rows = proposal.data, proposal.budget.rows_per_person
    if _apart_from_form(facts) != _apart_from_form(planned):
        raise InputError(
            f"the proposal is for {planned.name!r} with {planned.columns} encoded columns, and its "
            f"facts differ from those of {facts.name!r} with {facts.columns}; name the data it was "
            "made for"
        )
    if rows_per_person != rows:
        wanted, given = (
            "records" if places is None else f"persons with {places} places each"
            for places in (rows, rows_per_person)
        )
        raise InputError(
            f"the proposal protects {wanted}, and the data are read for {given}; add or leave out "
            "--person-column, or propose again"
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
