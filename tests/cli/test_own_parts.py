"""Losses, regularisers and sets of one's own, by name."""

import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import taciturn
from taciturn.errors import InputError
from taciturn.problems import LOSSES, REGULARISERS, loss_named, named, register

SOURCE = """
import equinox as eqx
import jax.numpy as jnp
import taciturn
from taciturn.problems.losses import MarginLoss


def helper():
    pass


class Softened(MarginLoss):
    smoothness = 0.25

    def value(self, margins, targets):
        return jnp.logaddexp(0.0, -targets * margins)


class Scaled(MarginLoss):
    scale: float = eqx.field(static=True)
    smoothness = 0.25

    def value(self, margins, targets):
        return self.scale * jnp.logaddexp(0.0, -targets * margins)


class Plain(taciturn.ServerMethod):
    def step(self, model, gradient, turn):
        return self.problem.prox(model - 4.0 * gradient, 4.0)
"""


TRAIN = [
    "breast_cancer", "--agents", "4", "--epsilon", "4", "--delta", "1e-4", "--rounds", "6",
]  # fmt: skip


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a user's, in the working folder, that nobody has imported yet."""
    before = set(LOSSES)
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine", None)
    for name in set(LOSSES) - before:
        del named._LOSSES[name]


@pytest.mark.slow
def test_a_loss_of_ones_own_is_trained_by_its_name(module, taciturn_):
    one = taciturn_(
        "train", *TRAIN, "--loss", "mine:Softened", "--seed", "1", "--clip", "0.5", "--out", "a"
    )
    two = taciturn_(
        "train", *TRAIN, "--loss", "logistic", "--seed", "1", "--clip", "0.5", "--out", "b"
    )
    assert (one.code, two.code) == (0, 0), one.err + two.err
    weights = [
        [t["coefficient"] for t in json.loads((module / name / "model.json").read_text())["terms"]]
        for name in "ab"
    ]
    np.testing.assert_allclose(*weights, atol=1e-5)
    assert "mine:Softened runs in the process that holds the records" in one.out


def test_numbers_follow_the_name(module, taciturn_):
    done = taciturn_("train", *TRAIN, "--loss", "mine:Scaled:0.5", "--algorithm", "mine:Plain")
    assert done.code == 0, done.err
    assert "Loss: mine:Scaled:0.5" in done.out
    refused = taciturn_("train", *TRAIN, "--loss", "mine:Scaled")
    assert refused.code == 2
    assert "mine:Scaled:scale" in refused.err


def test_neither_a_proposal_nor_a_model_brings_code(module, taciturn_):
    options = [o for o in TRAIN if o != "breast_cancer"]
    planned = taciturn_(
        "plan", "breast_cancer", *options, "--loss", "mine:Softened", "--out", "p.json"
    )
    assert planned.code == 0, planned.err
    del named._LOSSES["mine:Softened"]
    del sys.modules["mine"]
    alone = taciturn_("train", "breast_cancer", "--proposal", "p.json")
    assert alone.code == 2
    assert "add it if you trust it" in alone.err
    assert "mine" not in sys.modules
    assert (
        taciturn_("train", "breast_cancer", "--proposal", "p.json", "--loss", "logistic").code == 2
    )
    trusted = taciturn_(
        *("train", "breast_cancer", "--proposal", "p.json", "--loss", "mine:Softened"),
        *("--out", "a"),
    )
    assert trusted.code == 0, trusted.err
    # nor does a model, to be read
    del named._LOSSES["mine:Softened"]
    del sys.modules["mine"]
    shown = taciturn_("show", "a")
    assert shown.code == 0, shown.err
    assert "mine:Softened" in shown.out
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:Loss", "there is no module 'nowhere'"),
        ("mine:Nothing", "has no class or function 'Nothing'"),
        ("mine:Plain", "is no Loss, Regulariser or ConvexSet"),
        ("mine:helper", "is no class"),
    ],
)
def test_what_is_no_loss_is_refused(module, taciturn_, name, words):
    done = taciturn_("train", *TRAIN, "--loss", name)
    assert done.code == 2
    assert words in done.err


def test_a_regulariser_is_registered_with_its_numbers():

    @register
    class Nothing(taciturn.L2):
        """A ridge under another name."""

    (name,) = [one for one in REGULARISERS if one.endswith("Nothing")]
    try:
        assert REGULARISERS[name].numbers == ("weight",)
        assert REGULARISERS[name].make(0.5).value(jnp.ones(2)) == 0.5
    finally:
        del named._REGULARISERS[name]


def test_a_loss_is_not_found_unless_it_is_registered():
    with pytest.raises(InputError, match="not imported here"):
        loss_named("elsewhere:Loss", (), "binary", 2)
