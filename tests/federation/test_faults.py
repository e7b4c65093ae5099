"""Two hundred runs of five sites under random faults; `make soak` runs them all."""

import pytest
from tests.federation.faults import RUNS, SPECIAL, WIRE, make_studies, soaked

TENTH = [11 * k % RUNS for k in range(RUNS // 10)]


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return make_studies(tmp_path_factory.mktemp("studies"))


@pytest.mark.slow
def test_under_random_faults_every_run_ends_as_it_should(studies, tmp_path, monkeypatch):
    happened = set()
    for seed in TENTH:
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        happened |= set(soaked(studies, folder, seed).happened)
    assert {*WIRE, *SPECIAL} <= happened
