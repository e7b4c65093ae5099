"""Structures by name, and the graphs they come from."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from tacit.datasets import Split
from tacit.errors import InputError
from tacit.problems import (
    L1,
    ElasticNet,
    Loss,
    Structured,
    fused_lasso,
    generalised_lasso,
    lasso,
    sparse_rows,
)
from tacit.problems.graphs import learned_edges
from tacit.proposal.options import regulariser_named
from tacit.proposal.request import DEFAULT_REGULARISER, Request
from tacit.typing import HostArray

STRUCTURES = ("lasso", "fused-lasso", "generalized-lasso")
DEFAULT_WEIGHT = "l1:1e-4"


def structure_named(
    loss: Loss, request: Request, features: tuple[str, ...], parts: Split
) -> Structured:
    """Return the structured problem that a request describes, on the encoded columns `features`.

    - "lasso": weight |x|_1;
    - "fused-lasso": weight (sum over edges |x_i - x_j| + |x|_1); the graph comes from a file, or
      is learned from the test or the training records in `parts`; without, neighbouring columns
      are joined in a chain;
    - "generalized-lasso": weight |A x|_1, A from the graph file.

    The weight is that of the regulariser, "l1:W", or "elastic:W1,W2" for a ridge W2 besides;
    "l1:1e-4" if none is asked for.

    Raises
    ------
    InputError
        If the name, the regulariser or the file is not understood, or no graph can be learned.
    """
    weight, ridge = _weights(request.regulariser)
    size = len(features)
    if request.structure == "lasso":
        return lasso(loss, size, weight=weight, ridge=ridge)
    if request.structure == "fused-lasso":
        edges = _edges(request, features, parts)
        return fused_lasso(loss, edges, size, weight=weight, ridge=ridge)
    if request.structure == "generalized-lasso":
        if request.graph is None:
            raise InputError("generalized-lasso needs a file with the rows of A; give --graph FILE")
        rows = sparse_rows(read_matrix(request.graph, size))
        return generalised_lasso(loss, rows, weight=weight, ridge=ridge)
    raise InputError(f"structure is {request.structure!r}; choose from {', '.join(STRUCTURES)}")


def _edges(request: Request, features: tuple[str, ...], parts: Split) -> Int[HostArray, "e 2"]:
    if request.graph is not None:
        return read_edges(request.graph, features)
    if request.graph_from is None:
        nodes = np.arange(len(features))
        return np.stack([nodes[:-1], nodes[1:]], axis=1)
    rows = parts.test_features if request.graph_from == "test" else parts.train_features
    if len(rows) < 2:
        raise InputError("there are no test records to learn a graph from; give --test FILE")
    return learned_edges(rows, weight=request.graph_weight)


def read_edges(path: str, features: tuple[str, ...]) -> Int[HostArray, "e 2"]:
    """Return the edges in a CSV file: two columns a line, by name or by number from 0.

    Raises
    ------
    InputError
        If the file cannot be read, or a line names no two columns.
    """
    number = {name: place for place, name in enumerate(features)}
    number |= {str(place): place for place in range(len(features)) if str(place) not in number}
    edges = []
    for line, cells in enumerate(_lines(path), start=1):
        places = [number.get(cell.strip()) for cell in cells]
        if len(places) != 2 or None in places:
            raise InputError(
                f"{path}, line {line}: {','.join(cells)!r} does not join two of the "
                f"{len(features)} columns; write two names, or numbers from 0"
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


def graph_conditions(request: Request) -> tuple[str, ...]:
    """Return what a certificate must say of the structure."""
    if request.graph is not None:
        return ("the graph or matrix of the structure is taken as public, however it was found",)
    if request.graph_from == "test":
        return ("the graph of the structure was learned from the test records, which are public",)
    if request.graph_from == "private":
        return (
            "the graph of the structure was learned from the training records themselves, without "
            "noise, and the plan depends on it: the certificate holds only if the graph would be "
            "the same whatever one record says",
        )
    return ()


def graph_warning(request: Request) -> tuple[str, ...]:
    """Return a warning if the graph was learned from private records, else nothing."""
    if request.graph_from != "private":
        return ()
    return (
        "the certificate is conditional: the graph was learned from the training records; learn it "
        "from public ones (--graph-from test) or give a public file (--graph)",
    )


def _weights(text: str) -> tuple[float, float]:
    regulariser = regulariser_named(DEFAULT_WEIGHT if text == DEFAULT_REGULARISER else text)
    if isinstance(regulariser, L1):
        return regulariser.weight, 0.0
    if isinstance(regulariser, ElasticNet):
        return regulariser.l1, regulariser.l2
    raise InputError(
        f"a structure needs the weight of its l1 norm, not {text!r}; use l1:W, or elastic:W1,W2 "
        "with a ridge W2"
    )


def _lines(path: str) -> list[list[str]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}); give a CSV file"
        ) from error
    return [cells for cells in csv.reader(text.splitlines()) if cells]
