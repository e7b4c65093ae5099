"""From the bytes of a file to packed shards: the rows of one person change no other's places."""

import random

import numpy as np
import pytest

from taciturn.kernel.records import Draw, for_exact_sums
from taciturn.tables import Source, load_table
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training.records import divide

KNOWN = bounds_from_dict(
    {
        "source": "public",
        "ignore": ["note"],
        "target": {"name": "ill", "values": ["no", "yes"]},
        "columns": {
            "age": {"min": 0, "max": 99, "bins": 4},
            "pay": {"min": 0.001, "max": 9e5, "scale": "log", "missing": "indicator"},
            "weight": {"min": 1, "max": 90, "centre": 30, "weight": 0.7},
            "town": {"values": ["a", "b", "é"], "centre": "uniform", "weight": 3.3},
            **{f"x{k}": {"min": 0, "max": 1} for k in range(30)},
        },
    }
)
HEADER = ("who", "note", *KNOWN.columns, "ill")
PERSONS = [f"p{number:02d}" for number in range(40)]


def record(draw, who, *, odd=False):
    """Return a record of a person; if it is odd, no reader of blocks takes it for plain text."""

    def number(most):
        text = f"{draw.uniform(0, 1.1 * most):.17g}"
        return draw.choice([text[: draw.randrange(3, 18)], text, f"\u00a0{text}" if odd else text])

    note = draw.choice(["", "x" * draw.randrange(2_000), '"a\nb"', '" ""q"""']) if odd else ""
    numbers = [number(99), draw.choice(["", "NA", number(9e5)]), number(90)]
    more = [number(1) for _ in range(30)]
    return ",".join([who, note, *numbers, draw.choice("abé"), *more, draw.choice(["no", "yes"])])


def places(path, people, *, precision, features, evaluate):
    """Return, for every side and agent, the bits in the places of each of its persons."""
    lines = [",".join(HEADER), *(one for rows in people.values() for one in rows)]
    path.write_text("\n".join(lines))
    source = Source(path=path, target="ill", bounds=None, person_column="who")
    table = load_table(source, KNOWN, precision="float64" if features else precision)
    data = divide(
        table, 3, split_seed=0, draw=Draw(seed=0), features=features, rows_per_person=2,
        evaluate=evaluate,
    )  # fmt: skip
    sides = [data.shards(precision), *([data.evaluated()] if evaluate else [])]
    return [
        np.asarray(leaf)[agent].reshape(count // 2, -1).view(np.uint8)
        for side in sides
        for shard in (side.stacked, for_exact_sums(side))
        for leaf in (shard.features, shard.targets, shard.mask)
        for agent, count in enumerate(side.counts)
        for leaf in [np.asarray(leaf)[:, :count]]
    ]


@pytest.mark.parametrize(
    ("precision", "features", "evaluate"),
    [
        ("float32", None, None),
        pytest.param("float64", None, 0.2, marks=pytest.mark.slow),
        pytest.param("float64", "fourier:600", 0.2, marks=pytest.mark.slow),
    ],
)
def test_rows_of_one_person_change_no_place_of_another(
    precision, features, evaluate, tmp_path, monkeypatch
):
    """Planted fault: Fourier features as a product of matrices, which rounds as their size says."""
    draw = random.Random(f"{precision} {features} {evaluate}")
    how = {"precision": precision, "features": features, "evaluate": evaluate}
    people = {who: [record(draw, who) for _ in range(draw.randrange(1, 4))] for who in PERSONS}
    whole = places(tmp_path / "t.csv", people, **how)
    for size in (200, 2**21):
        monkeypatch.setattr("taciturn.tables.pieces.BYTES_AT_ONCE", size)
        monkeypatch.setattr("taciturn.tables.pieces.ROWS_AT_ONCE", draw.choice([1, 7, 2048]))
        monkeypatch.setattr("taciturn.kernel.records.memory._ROWS", draw.choice([1, 7, 8192]))
        who = draw.choice(PERSONS)
        rows = [record(draw, who, odd=True) for _ in range(draw.randrange(1, 6))]
        found = places(tmp_path / "t.csv", {**people, who: rows}, **how)
        changed = [np.any(a != b, axis=1) for a, b in zip(whole, found, strict=True)]
        at = {(k // 18, k % 3, *np.flatnonzero(one)) for k, one in enumerate(changed) if one.any()}
        assert len(at) == 1, at  # one side, one agent and one of its persons
        assert len(at.pop()) == 3
