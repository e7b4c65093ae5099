"""The parts of a proposal: public facts about records, problem, method, budget and network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_serializer, model_validator

from taciturn import problems
from taciturn.algorithms import METHODS, Value, check_options
from taciturn.documents import Extended, Part
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, Observer, Sum, Terms, Unit
from taciturn.names import relation_named
from taciturn.network import MOST_EXCHANGES, Graph, Mixing, Tree, Walk, metropolis, spanning_tree
from taciturn.problems import Loss, Name

# what single precision can compute with: a weight, and a number whose square is needed
Weight = Annotated[float, Field(le=1e30)]
Cell = Annotated[float, Field(ge=-1e15, le=1e15)]
StructureName = Literal["lasso", "fused-lasso", "generalized-lasso"]
GraphSource = Literal["chain", "given"]
# of an agent or a column; the upper end is that of NumPy's 32-bit integers
Place = Annotated[int, Field(ge=0, lt=2**31)]
# whole numbers up to here are exact in double precision
Count = Annotated[int, Field(ge=0, lt=2**53)]


class Structure(Part):
    """weight |A x|_1 + ridge |x|^2 / 2 with A from a graph of the columns or given by its rows.

    Edges (of the fused lasso) are pairs of encoded columns; rows (of the generalised lasso) are
    those of A. A certificate states that they are public where they were given.
    """

    name: StructureName
    weight: Weight
    ridge: Weight
    edges: tuple[tuple[Place, Place], ...]
    rows: tuple[tuple[Cell, ...], ...]
    source: GraphSource

    @model_validator(mode="after")
    def _of_one_name(self) -> Structure:
        if (self.edges and self.name != "fused-lasso") or (
            self.rows and self.name != "generalized-lasso"
        ):
            raise InputError(
                f"{self.name} comes with edges or rows of another structure; leave them empty"
            )
        return self

    @property
    def conditions(self) -> tuple[str, ...]:
        """The condition that a graph or matrix adds to a certificate."""
        if self.source == "chain":
            return ()
        return ("the graph or matrix of the structure is taken as public, however it was found",)

    def structured(self, loss: Loss, columns: int) -> problems.Structured:
        """Return the structured problem on so many encoded columns."""
        if self.name == "lasso":
            return problems.lasso(loss, columns, weight=self.weight, ridge=self.ridge)
        if self.name == "fused-lasso":
            edges = np.array(self.edges, dtype=int).reshape(-1, 2)
            return problems.fused_lasso(loss, edges, columns, weight=self.weight, ridge=self.ridge)
        if any(len(row) != columns for row in self.rows):
            raise InputError(f"a row of A has not {columns} numbers, one for each encoded column")
        rows = problems.sparse_rows(np.array(self.rows, dtype=float).reshape(-1, columns))
        return problems.generalised_lasso(loss, rows, weight=self.weight, ridge=self.ridge)


class MethodChoice(Part):
    """A method by name, with the value of each of its options."""

    name: Name
    options: dict[str, Value]

    @field_validator("options")
    @classmethod
    def _of_their_types(cls, options: dict[str, Value], info: Any) -> dict[str, Value]:
        """Return the options as the library's methods declare them: rho 1 is the number 1.0."""
        name = info.data.get("name")
        method = METHODS.get(str(name))
        return options if method is None else check_options(str(name), method, options)


class Budget(Part):
    """The terms of a run as names and numbers: `taciturn.kernel.privacy.Terms`.

    `agent_epsilons`: the budget of each agent, the largest equal to `epsilon`; None if all have it.
    """

    epsilon: Extended
    delta: float
    relation: Name
    unit: Unit
    observer: Literal["messages", "sum"]
    colluders: int
    rows_per_person: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    agents_per_person: Annotated[int, Field(ge=1, lt=2**31)] = 1
    agent_epsilons: tuple[float, ...] | None = None

    @model_serializer(mode="wrap")
    def _as_written(self, written: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the values; those of persons and of agents only where there are any."""
        values: dict[str, Any] = written(self)
        if self.agent_epsilons is None:
            del values["agent_epsilons"]
        if self.unit == "person":
            return values
        return {name: value for name, value in values.items() if not name.endswith("_per_person")}

    @property
    def terms(self) -> Terms:
        """The terms, checked."""
        observer: Observer = Messages()
        if self.observer == "sum":
            observer = Sum(self.colluders)
        elif self.colluders:
            raise InputError("colluders are counted for the observer sum only; give 0")
        adjacency = Adjacency(
            relation_named(self.relation), self.unit, self.rows_per_person, self.agents_per_person
        )
        return Terms(self.epsilon, self.delta, adjacency, observer)


def delta_warning(delta: float, units: int, what: str = "records") -> tuple[str, ...]:
    """Return a warning if delta exceeds 1 / (10 x units), else nothing.

    `units`, `what`: how many records there are, or persons if a person is what is protected; their
    name.
    """
    least = 1 / (10 * units)
    if delta <= least:
        return ()
    return (
        f"delta {delta:g} is above 1/(10 x {units} {what}) = {least:.2g}: such a mechanism "
        f"may publish whole records; choose delta at most {least:.2g}",
    )


class Connection(Part):
    """The edges of a network, and what goes along them; names as in the request.

    - `holders`: On a relay the agent of each hop; None in gossip, which mixes with Metropolis
      weights.
    - `cap`: On a relay the most answers that an agent gives; None for no limit.
    - `tree`: Whether the messages of a star's method are added up along a spanning tree of least
      depth.
    - `exchanges`: In gossip, how often the messages of a round are exchanged
      (`taciturn.network.Mixing`).
    """

    name: str
    edges: tuple[tuple[Place, Place], ...]
    walk: str | None
    holders: tuple[Place, ...] | None
    cap: int | None
    tree: bool = False
    exchanges: Annotated[int, Field(ge=1, le=MOST_EXCHANGES)] = 1

    @model_validator(mode="after")
    def _of_one_kind(self) -> Connection:
        if self.holders is None and (self.walk is not None or self.cap is not None):
            raise InputError("walk and cap belong to a relay, whose holders are missing")
        if self.holders is not None and self.tree:
            raise InputError("a network is a relay or a tree; leave the holders or the tree out")
        if self.exchanges > 1 and self.kind != "gossip":
            raise InputError("messages are exchanged several times in gossip only; give 1")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, written: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the values; tree and exchanges where they say something, as before they were."""
        values: dict[str, Any] = written(self)
        usual = {"tree": False, "exchanges": 1}
        return {k: v for k, v in values.items() if k not in usual or v != usual[k]}

    @property
    def kind(self) -> Literal["tree", "gossip", "relay"]:
        """What goes along the edges: sums, messages of all agents, or a token."""
        if self.tree:
            return "tree"
        return "gossip" if self.holders is None else "relay"

    def network(self, agents: int) -> Mixing | Walk | Tree:
        """Return the network of so many agents, checked."""
        graph = Graph(agents, np.array(self.edges, dtype=int).reshape(-1, 2))
        if self.tree:
            return spanning_tree(graph)
        if self.holders is None:
            return metropolis(graph, exchanges=self.exchanges)
        return Walk(graph, np.array(self.holders, dtype=int), self.cap)


def check_seed(name: str, seed: int) -> None:
    """Raise `InputError` unless the seed fits the generators: 0 to 2^63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"{name} is {seed}; it must be a whole number from 0 to 2^63 - 1")
