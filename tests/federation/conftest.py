"""Every test has places of its own for heads and accounts."""

import pytest
from tests.federation.studies import make_study


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def star(tmp_path_factory):
    """Three owners on a star, noisy-gradient, six rounds."""
    return make_study(tmp_path_factory.mktemp("star"))


@pytest.fixture(scope="session")
def ring(tmp_path_factory):
    """Three owners on a ring, NIDS, six rounds."""
    folder = tmp_path_factory.mktemp("ring")
    return make_study(folder, algorithm="nids", network={"network": "ring"})


@pytest.fixture(scope="session")
def relay(tmp_path_factory):
    """Three owners on a relay, RECAL, six hops."""
    folder = tmp_path_factory.mktemp("relay")
    return make_study(folder, algorithm="recal", network={"network": "ring"}, rounds=6)
