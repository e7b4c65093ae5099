"""Settings of a run, changed by name, and the records of a user's file."""

import dataclasses

import numpy as np
import pytest

from taciturn.errors import DataError, InputError
from taciturn_papers.reproductions import (
    PAPERS,
    changed,
    dataset_named,
    register,
    scale_of,
    settings_of,
)  # fmt: skip
from taciturn_papers_tests.reproductions.test_frame import made


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("quick", [True, False])
def test_every_setting_can_be_set_to_what_it_is(paper, quick):
    scale = scale_of(paper, quick=quick)
    for name, value in settings_of(scale).items():
        assert changed(scale, [f"{name}={value}"]) == scale


def test_numbers_lists_and_parts_are_changed_by_name():
    scale = changed(scale_of("huang2019"), ["rounds=50", "per_round=0.1, 0.3", "kinds=l2"])
    assert (scale.rounds, scale.per_round, scale.kinds) == (50, (0.1, 0.3), ("l2",))
    ryu = changed(
        scale_of("ryu2023"), ["case118.rounds=7", "grids=case118,mine.m", "mnist.seeds=4"]
    )
    assert next((run.case, run.rounds) for run in ryu.grids) == ("case118", 7)
    assert dataclasses.replace(ryu.grids[1], case="case14") == scale_of("ryu2023").grids[0]
    assert [run.seeds for run in ryu.learning] == [4, 5]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("rounds", "write NAME=VALUE"),
        ("round=3", "there are kinds, records"),
        ("rounds=0", "at least 1"),
        ("rounds=1_0", "whole number"),
        ("rounds=ten", "whole number"),
        ("optimum_tol=-1", "at least 0"),
        ("optimum_tol=nan", "at least 0"),
        ("kinds=l1,l3", "choose from l1, l2"),
    ],
)
def test_a_setting_that_is_none_is_refused_with_what_is_needed(setting, words):
    with pytest.raises(InputError, match=words):
        changed(scale_of("huang2019"), [setting])


def test_a_full_run_is_refused_where_the_default_is_full():
    assert scale_of("ryu2023", full=True).learning[0].rounds == 5000
    for paper in ("huang2019", "liu2022", "wang2024"):
        with pytest.raises(InputError, match="leave out full"):
            scale_of(paper, full=True)


def test_the_name_of_a_run_says_what_was_changed(monkeypatch):
    monkeypatch.setattr(register, "_built", lambda *_: made())
    run = register.reproduce("huang2019", settings=("rounds=3", "agents=5"), report=print)
    assert run.run == "a quick run on 2,000 records, with rounds=3 and agents=5"


def test_settings_are_listed_and_a_curve_needs_a_folder(taciturn_, refused):
    assert taciturn_("reproduce", "huang2019", "--settings").out.startswith("setting")
    listed = taciturn_("reproduce", "huang2019", "--quick", "--settings", "--json").json
    assert listed["divisions"] == "5,25"
    assert "--out" in refused("reproduce", "huang2019", "--quick", "--curves")
    assert "leave out full" in refused("reproduce", "wang2024", "--full")


def test_a_file_becomes_records_in_the_unit_cube(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("age,arm,ill\n30,a,no\n50,b,yes\n40,a,yes\n,a,no\n")
    data = dataset_named(f"{file}:ill")
    assert data.feature_names == ("age", "arm_a", "arm_b")
    np.testing.assert_array_equal(data.features, [[0, 1, 0], [1, 0, 1], [0.5, 1, 0]])
    np.testing.assert_array_equal(data.targets, [-1, 1, 1])
    assert dataset_named("adult").name == "adult"
    with pytest.raises(DataError, match="no column 'sick'; name one of age, arm, ill"):
        dataset_named(f"{file}:sick")
