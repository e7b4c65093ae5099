"""The example tables are what their generator makes, small, and described by their bounds."""

import runpy

import numpy as np
import pytest
from docs_pages import ROOT

from taciturn.tables import encode, read_bounds, read_table

EXAMPLES = ROOT / "docs" / "examples"


def test_the_example_tables_are_what_the_generator_makes_and_small():
    made = runpy.run_path(str(EXAMPLES / "make_examples.py"))["files"]()
    there = {file.name: file.read_text() for file in EXAMPLES.glob("*.csv")}
    assert there == made
    assert max(map(len, made.values())) <= 60_000


@pytest.mark.parametrize("name", ["visits", "claims"])
def test_the_finished_bounds_describe_every_file_of_their_table(name):
    bounds = read_bounds(EXAMPLES / f"{name}.toml")
    assert bounds.origin == "public"
    for part in ("", "_test", "_new"):
        frame = read_table(EXAMPLES / f"{name}{part}.csv", bounds.form)
        assert np.isfinite(encode(frame, bounds, with_target=part != "_new").features).all()


def test_the_example_tables_have_what_their_page_says_is_wrong_with_them():
    visits = (EXAMPLES / "visits.csv").read_text()
    claims = (EXAMPLES / "claims.csv").read_text()
    assert all(text in visits for text in (";;", ";NA;", ";n.m.;", ";Yes", ";yes", ";F;", ",0;"))
    costs = read_table(EXAMPLES / "claims.csv")["cost"].str.replace(",", "").astype(float)
    assert '"9,430"' in claims
    assert costs.skew() > 2
