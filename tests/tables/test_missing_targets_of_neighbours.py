"""A record that gains or loses its target moves no answer of any method beyond its bound."""

import numpy as np
import pytest

from taciturn.audit.recorded import replay
from taciturn.engine import compute, records_for_door
from taciturn.kernel.door import Live, Supply
from taciturn.kernel.noise import Stream
from taciturn.kernel.records import Draw
from taciturn.tables import Source, load_table
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training import (
    Division,
    NetworkRequest,
    Request,
    StructureRequest,
    count_data,
    divide_records,
    proposal_for,
)

COLUMNS, ROWS = [f"x{k}" for k in range(4)], 60
LABELS = {"binary": ["no", "yes"], "multiclass": ["a", "b", "c"]}
BATCHES = {"algorithm": "dp-sgd", "options": {"sampling_rate": 0.5}}
FIXED = {"algorithm": "dp-sgd", "options": {"sampling_rate": 0.5, "batches": "fixed"}}
LASSO = {"options": {"sampling_rate": 0.5}, "structure": "lasso"}
QUICK = {
    "gradient": ("binary", {}),
    "persons": ("binary", {"rows_per_person": 2}),
    "one question": ("regression", {"algorithm": "one-question", "rounds": 1}),
}
SLOW = {
    "sum": ("binary", {"observer": "sum"}),
    "zero out": ("binary", {"relation": "zero_out"}),
    "proximal step": ("binary", {"algorithm": "pvp"}),
    "noise inside": ("binary", {"algorithm": "dvp"}),
    "fixed batches": ("binary", FIXED),
    "poisson batches": ("multiclass", BATCHES),
    "centre": ("binary", {"centre": True, "rounds": 4}),
    "centre of persons": ("multiclass", {"centre": True, "rounds": 4, "rows_per_person": 2}),
    "variance reduction": ("binary", {"algorithm": "vradmm", "rounds": 5, **LASSO}),
    "stochastic admm": ("binary", {"algorithm": "sadmm", **LASSO}),
    "one question of persons": (
        "regression",
        {"algorithm": "one-question", "rounds": 1, "rows_per_person": 2},
    ),
    "gossip": ("binary", {"algorithm": "nids"}),
    "relay": ("binary", {"algorithm": "recal", "rounds": 6}),
    "tree": ("binary", {"network": NetworkRequest(network="ring")}),
    "class weights": ("binary", {"class_weight": {"no": 0.1, "yes": 1.0}}),
}


def answers_of(task, draw):
    return draw.choice(LABELS[task]) if task in LABELS else str(draw.choice([-1, 1]))


def rows_of(task):
    """Return rows of which a third have no target, three of each person."""
    draw = np.random.default_rng(0)
    cells = draw.uniform(-1, 1, (ROWS, 4)).round(3)
    targets = ["" if draw.random() < 0.3 else answers_of(task, draw) for _ in range(ROWS)]
    return [
        [f"p{k // 3}", *map(str, row), y]
        for k, (row, y) in enumerate(zip(cells, targets, strict=True))
    ]


def neighbour(rows, task, *, comes, draw, zero_out, persons):
    """Return rows of which one gains a target, or loses it, with those of the same person.

    Under replace_one the other cells are moved to ends of their ranges as well.
    """
    found = [list(row) for row in rows]
    chosen = draw.choice([k for k, row in enumerate(rows) if comes == (not row[-1])])
    same = range(ROWS) if persons else [chosen]
    for row in (found[k] for k in same if rows[k][0] == rows[chosen][0]):
        row[-1] = "" if row[-1] else str(answers_of(task, draw))
        if not zero_out:
            row[1:5] = map(str, draw.choice([-1, 1], 4))
    return found


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_a_target_that_comes_or_goes_stays_within_the_bound(name, tmp_path):
    """The counts are the same, and so no divisor follows from a target."""
    task, more = (QUICK | SLOW)[name]
    how = {"epsilon": 2.0, "delta": 1e-4, "rounds": 3, "precision": "float64", **more}
    structure, persons = StructureRequest(structure=how.pop("structure", None)), "rows_per_person"
    request, fixed = Request(**how), Draw(seed=0)
    division = Division.of_request(request, 3)
    target = {"values": LABELS[task]} if task in LABELS else {"min": -1, "max": 1}
    known = bounds_from_dict(
        {
            "source": "public",
            "target": {"name": "y", **target, "missing": "leave out"},
            "columns": {column: {"min": -1, "max": 1} for column in COLUMNS},
            "ignore": [] if persons in how else ["who"],
        }
    )

    def divided(rows):
        file = tmp_path / "t.csv"
        file.write_text("\n".join(map(",".join, [["who", *COLUMNS, "y"], *rows])) + "\n")
        person = "who" if persons in how else None
        source = Source(path=file, target="y", bounds=None, person_column=person)
        return divide_records(load_table(source, known), division, fixed)

    rows = rows_of(task)
    data = divided(rows)
    proposal = proposal_for(count_data(division, data.dataset), request, structure)
    plan = proposal.plan()

    def opened(data):
        assert data.counts == proposal.counts
        return records_for_door(plan, data.shards(proposal.precision, centre=proposal.centre))

    first, program = opened(data), plan.program
    raw = Supply(program.agenda, Stream.seeded(3), first.rows).block(0, program.rounds)
    live = Live(program.oracles, program.mechanism, first)
    _, trace = compute(program, live, raw, keep=frozenset({"answers", "messages"}))
    draw, moved = np.random.default_rng(1), 0.0
    kind = {"zero_out": how.get("relation") == "zero_out", "persons": persons in how}
    for comes in (True, False) * 2:
        second = opened(divided(neighbour(rows, task, comes=comes, draw=draw, **kind)))
        seen = replay(plan, program.oracles, trace, first, second, raw=raw)
        assert seen.bounds_hold
        assert seen.messages_hold
        moved = max(moved, seen.worst_ratio)
    assert moved > 0.2
