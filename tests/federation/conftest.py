"""Every test has a separate place for heads and accounts; studies and one run are shared."""

import pytest
from tests.federation.studies import PATH, RING, make_study
from tests.federation.wire import meet

from taciturn_federation.masks import Masking


@pytest.fixture(autouse=True)
def separate_places(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    # a killed process loses nothing that it handed to the system: only a power failure would
    monkeypatch.setattr("taciturn_federation.journal.synchronise", unsynchronised)


def unsynchronised(connection):
    connection.execute("PRAGMA synchronous = OFF")


# three owners, six rounds of noisy-gradient on a star, but for what is stated
KINDS = {
    "star": {},
    "ring": {"algorithm": "nids", "network": RING},
    "relay": {"algorithm": "recal", "network": RING, "rounds": 6},
    "tree": {"agents": 5, "network": PATH, "rounds": 4},
    "masked_tree": {"agents": 5, "network": PATH, "rounds": 4, "observer": "sum"},
    "summed": {"observer": "sum"},  # one of the owners may collude
    "evaluated": {"evaluate": 0.2, "rounds": 3},
    "evaluated_sums": {"evaluate": 0.2, "rounds": 3, "observer": "sum"},
}


def study_of(kind):
    def fixture(tmp_path_factory):
        return make_study(tmp_path_factory.mktemp(kind), **KINDS[kind])

    return pytest.fixture(fixture, scope="session", name=kind)


for kind in KINDS:
    globals()[kind] = study_of(kind)


@pytest.fixture
def study(request):
    """The study of the kind that a test is parametrised with."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def finished(star, tmp_path_factory):
    """A finished run on a star: its hub, and the folder of its journals and heads."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        hub = meet(star, folder).run()
        hub.close()
    return hub, folder


@pytest.fixture
def carried(monkeypatch):
    """The plain words of every round, by site, and of the evaluation; only the test sees them."""
    plain, mask, mask_evaluation = {}, Masking.mask, Masking.mask_evaluation

    def watched(self, turn, transcript, body, members):
        plain[self._agent, turn] = body
        return mask(self, turn, transcript, body, members)

    def watched_evaluation(self, agents, transcript, body):
        plain[self._agent, "evaluation"] = body
        return mask_evaluation(self, agents, transcript, body)

    monkeypatch.setattr(Masking, "mask", watched)
    monkeypatch.setattr(Masking, "mask_evaluation", watched_evaluation)
    return plain
