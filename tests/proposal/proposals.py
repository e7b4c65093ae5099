"""Valid proposals of every kind, which many tests start from."""

from functools import cache

import numpy as np

from taciturn.algorithms import METHODS
from taciturn.problems import Named
from taciturn.tables import Bounds, Categories, Numeric, encoded_names, encoded_norm
from taciturn.training import (
    DataFacts,
    NetworkRequest,
    Request,
    StructureRequest,
    TableFacts,
    propose,
)

COLUMNS = 4
CLASSES = {"binary": 2, "multiclass": 3, "regression": None}


def facts(task="binary", table=None):
    return DataFacts(
        name="mine", task=task, classes=CLASSES[task], columns=COLUMNS, record_norm=1.0, table=table
    )


def table_facts():
    columns = {"age": Numeric(18.0, 90.0), "smokes": Categories(("no", "ja, täglich"))}
    bounds = Bounds("public", "ill", Categories(("no", "yes")), columns, ("name",))
    return DataFacts(
        name="ill", task="binary", classes=2, columns=len(encoded_names(bounds)),
        record_norm=encoded_norm(bounds), table=TableFacts.of(bounds),
    )  # fmt: skip


def proposed(
    task="binary", counts=(12, 13, 15), *, data=None, structure=None, matrix=None, **asked
):
    """Return the proposal of a request; `structure` by name."""
    data = data or facts(task)
    request = Request(**{"epsilon": 2.0, "delta": 1e-4, "rounds": 6} | asked)
    content = (
        StructureRequest(structure=structure).of_columns(tuple(map(str, range(data.columns))))
        if matrix is None
        else matrix
    )
    return propose(data, counts, request, content)


def _of_method(name):
    method = METHODS[name]
    task = "regression" if method.rounds == 1 else "binary"
    structure = "lasso" if method.structure == "required" else None
    return proposed(task, algorithm=name, rounds=None, structure=structure)


def _rows_of_a():
    from taciturn.training import Structure

    rows = tuple(map(tuple, np.eye(COLUMNS).tolist()))
    return Structure(
        name="generalized-lasso", weight=0.1, ridge=0.01, edges=(), rows=rows, source="given"
    )


@cache
def examples():
    """Return proposals by what is special about them: every method, and what they may be given."""
    special = {
        "table": proposed(data=table_facts()),
        "multinomial": proposed("multiclass", loss=Named(name="multinomial", numbers=())),
        "hinge": proposed(loss=Named(name="hinge", numbers=(0.5,))),
        "squared": proposed("regression"),
        "evaluated": proposed(evaluate=0.25),
        "elastic": proposed(regulariser=Named(name="elastic", numbers=(1e-3, 0.25))),
        "box": proposed(constraint=Named(name="box", numbers=(0.5,))),
        "simplex": proposed(constraint=Named(name="simplex", numbers=())),
        "sum": proposed(observer="sum", relation="zero_out"),
        "float64": proposed(precision="float64", split_seed=2**63 - 1),
        "no privacy": proposed(epsilon=float("inf")),
        "fixed": proposed(algorithm="dp-sgd", options={"batches": "fixed", "sampling_rate": 0.3}),
        "cap": proposed(algorithm="recal", network=NetworkRequest(walk="random", cap=3), rounds=12),
        "complete": proposed(algorithm="walkman", network=NetworkRequest(network="complete")),
        "gossip": proposed(algorithm="nids", network=NetworkRequest(network="star")),
        "tree": proposed(network=NetworkRequest(network="path")),
        "fused": proposed(structure="fused-lasso", algorithm="sadmm", options={"smoothing": 1.0}),
        "matrix": proposed(matrix=_rows_of_a()),
    }  # fmt: skip
    return {**{name: _of_method(name) for name in METHODS}, **special}
