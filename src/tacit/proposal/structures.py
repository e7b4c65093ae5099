"""Structures of the weights by name, with graphs from files."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Float, Int

from tacit import checks
from tacit.algorithms import METHODS, Method
from tacit.errors import InputError
from tacit.problems.graphs import DEFAULT_GRAPH_WEIGHT, learned_edges
from tacit.proposal.parts import Named, Structure, StructureName
from tacit.typing import HostArray

DEFAULT_WEIGHT = Named(name="l1", numbers=(1e-4,))
GRAPH_SOURCES = ("test", "private")


@dataclass(frozen=True, kw_only=True)
class StructureRequest:
    """A request for a structure of the weights.

    Attributes
    ----------
    name
        "lasso": weight |x|_1. "fused-lasso": weight (sum over edges |x_i - x_j| + |x|_1).
        "generalized-lasso": weight |A x|_1. None for no structure.
    weights
        "l1:W", or "elastic:W1,W2" for a ridge W2 besides; None for "l1:1e-4".
    graph
        A CSV file, which is public: edges, or the rows of A. Without, neighbouring columns are
        joined in a chain.
    graph_from
        "test" or "private": learn the edges from these records instead
        (`tacit.problems.graphs.learned_edges`).
    graph_weight
        Weight of the graphical lasso that learns it: the larger, the fewer edges.
    """

    name: str | None = None
    weights: Named | None = None
    graph: str | None = None
    graph_from: str | None = None
    graph_weight: float = DEFAULT_GRAPH_WEIGHT

    def check(self, algorithm: str, method: Method) -> None:
        """Raise `InputError` unless structure, graph and the method called `algorithm` agree."""
        if self.name is None and method.structure == "required":
            raise InputError(
                f"{algorithm} solves problems with a structure; name one with --structure"
            )
        if self.name is not None and method.structure is None:
            suited = ", ".join(name for name, one in METHODS.items() if one.structure is not None)
            raise InputError(f"{algorithm} knows no structure; use {suited}")
        if self.name is not None and self.name not in get_args(StructureName):
            choices = ", ".join(get_args(StructureName))
            raise InputError(f"structure is {self.name!r}; choose from {choices}")
        if self.graph is not None and self.name in {None, "lasso"}:
            raise InputError("a graph is for the structures fused-lasso and generalized-lasso")
        self._check_source()
        if self.name is not None:
            self._weights()

    def _check_source(self) -> None:
        if self.graph_from is None:
            return
        if self.graph_from not in GRAPH_SOURCES:
            raise InputError(
                f"graph-from is {self.graph_from!r}; choose from {', '.join(GRAPH_SOURCES)}"
            )
        if self.name != "fused-lasso" or self.graph is not None:
            raise InputError(
                "a graph is learned for the structure fused-lasso where no file gives one; leave "
                "graph-from or the file out"
            )
        checks.positive("graph-weight", self.graph_weight)

    def _weights(self) -> tuple[float, float]:
        """Return the weight of the structure and that of the ridge."""
        weights = self.weights or DEFAULT_WEIGHT
        if weights.name == "l1" and len(weights.numbers) == 1:
            return weights.numbers[0], 0.0
        if weights.name == "elastic" and len(weights.numbers) == 2:
            return weights.numbers[0], weights.numbers[1]
        raise InputError(
            f"a structure needs the weight of its l1 norm, not {str(weights)!r}; use l1:W, or "
            "elastic:W1,W2 with a ridge W2"
        )

    def structure(
        self, columns: tuple[str, ...], rows: Float[HostArray, "M D"] | None
    ) -> Structure | None:
        """Return the structure as content.

        Parameters
        ----------
        columns
            The encoded columns.
        rows
            The records that `graph_from` names, encoded; None if it names none.

        Raises
        ------
        InputError
            If the file is not understood, or no graph can be learned.
        """
        if self.name is None:
            return None
        weight, ridge = self._weights()
        edges, matrix = np.empty((0, 2), int), np.empty((0, len(columns)))
        if self.name == "fused-lasso":
            edges = self._edges(columns, rows)
        elif self.name == "generalized-lasso":
            if self.graph is None:
                raise InputError(
                    "generalized-lasso needs a file with the rows of A; give --graph FILE"
                )
            matrix = read_matrix(self.graph, len(columns))
        return Structure(
            name=self.name,
            weight=weight,
            ridge=ridge,
            edges=tuple(map(tuple, edges.tolist())),
            rows=tuple(map(tuple, matrix.tolist())),
            source=(self.graph_from or "chain") if self.graph is None else "given",
        )

    def _edges(
        self, columns: tuple[str, ...], rows: Float[HostArray, "M D"] | None
    ) -> Int[HostArray, "e 2"]:
        if self.graph is not None:
            return read_edges(self.graph, columns)
        if self.graph_from is None:
            return chain_of(len(columns))
        if rows is None or len(rows) < 2:
            raise InputError("there are no test records to learn a graph from; give --test FILE")
        return learned_edges(rows, weight=self.graph_weight)


def chain_of(columns: int) -> Int[HostArray, "e 2"]:
    """Return the edges that join neighbouring columns."""
    nodes = np.arange(columns)
    return np.stack([nodes[:-1], nodes[1:]], axis=1)


def read_edges(path: str, columns: tuple[str, ...]) -> Int[HostArray, "e 2"]:
    """Return the edges in a CSV file: two columns a line, by name or by number from 0.

    Raises
    ------
    InputError
        If the file cannot be read, or a line names no two columns.
    """
    number = {name: place for place, name in enumerate(columns)}
    number |= {str(place): place for place in range(len(columns)) if str(place) not in number}
    edges = []
    for line, cells in enumerate(_lines(path), start=1):
        places = [number.get(cell.strip()) for cell in cells]
        if len(places) != 2 or None in places:
            raise InputError(
                f"{path}, line {line}: {','.join(cells)!r} does not join two of the "
                f"{len(columns)} columns; write two names, or numbers from 0"
            )
        edges.append(places)
    return np.array(edges, dtype=int).reshape(-1, 2)


def read_matrix(path: str, columns: int) -> Float[HostArray, "m n"]:
    """Return the rows of a CSV file of numbers, one number per column of the model.

    Raises
    ------
    InputError
        If the file cannot be read, or a line does not hold that many numbers.
    """
    rows = []
    for line, cells in enumerate(_lines(path), start=1):
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            row = []
        if len(row) != columns:
            raise InputError(f"{path}, line {line}: expected {columns} numbers, one per column")
        rows.append(row)
    return np.array(rows, dtype=float).reshape(-1, columns)


def graph_conditions(structure: Structure | None) -> tuple[str, ...]:
    """Return the conditions that the structure adds to a certificate."""
    if structure is None or structure.source == "chain":
        return ()
    if structure.source == "given":
        return ("the graph or matrix of the structure is taken as public, however it was found",)
    if structure.source == "test":
        return ("the graph of the structure was learned from the test records, which are public",)
    return (
        "the graph of the structure was learned from the training records themselves, without "
        "noise, and the plan depends on it: the certificate holds only if the graph would be "
        "the same whatever one record says",
    )


def graph_warning(structure: Structure | None) -> tuple[str, ...]:
    """Return a warning if the graph was learned from private records, else nothing."""
    if structure is None or structure.source != "private":
        return ()
    return (
        "the certificate is conditional: the graph was learned from the training records; learn it "
        "from public ones (--graph-from test) or give a public file (--graph)",
    )


def _lines(path: str) -> list[list[str]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}); give a CSV file"
        ) from error
    return [cells for cells in csv.reader(text.splitlines()) if cells]
