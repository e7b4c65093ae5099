"""Small problems that many tests share."""

import ctypes
import gc
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tacit.algorithms import DPADMM, NoisyGradient
from tacit.datasets import load
from tacit.engine.planning import plan
from tacit.errors import DataError
from tacit.oracles import Gradient
from tacit.privacy import Adjacency, Messages, ReplaceOne, Terms
from tacit.problems import (
    L2,
    Logistic,
    NoRegulariser,
    Problem,
    WholeSpace,
    pack,
    public_facts,
)
from tacit.proposal import Request, StructureRequest
from tacit.training import divide, proposal_for, train

PAPERS = Path(__file__).parents[1] / "papers" / "tacit_papers_tests"
QUICK_OF_THE_PAPERS = {"test_commands.py"}


def make_shards(*, agents=4, records=12, features=3, seed=0, precision="float64", classes=None):
    draw = np.random.default_rng(seed)
    rows = agents * records
    x = draw.standard_normal((rows, features))
    y = draw.integers(0, classes, rows) if classes else np.sign(draw.standard_normal(rows))
    parts = np.split(np.arange(rows), agents)
    return pack(x, y, parts, record_norm=1.0, precision=precision, enforce="clip")


def make_terms(epsilon=1.0, delta=1e-5, observer=None, relation=None):
    return Terms(
        epsilon, delta, Adjacency(relation or ReplaceOne(), "record"), observer or Messages()
    )


def make_algorithm(name, problem):
    if name == "dp-admm":
        return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")
    if name == "dp-admm-published":
        return DPADMM(problem, rho=0.1, radius=5.0, step_rule="nonsmooth", regulariser_at="agents")
    return NoisyGradient(problem)


def make_plan(name, shards, *, problem=None, terms=None, rounds=6, clip=1.0, precision="float64"):
    problem = problem or Problem(Logistic(), NoRegulariser(), WholeSpace())
    return plan(
        public_facts(problem, shards, clip=clip),
        make_algorithm(name, problem),
        (Gradient(problem.loss, clip),),
        terms or make_terms(),
        rounds=rounds,
        precision=precision,
    )


# what rounding answers to a lattice costs a plan of full batches, at most: 2^-21 of the noise and
# twice that of epsilon (tacit.privacy.lattice)
LATTICE = 1e-6
# what rounding adds to the bound of a proximal or projected step (tacit.oracles.sums)
ROUNDED = 1 + 2.0**-9


def just_below(value, limit):
    """Whether a cost is at most what real numbers give, and less by no more than the lattice."""
    return bool(np.all(((1 - LATTICE) * limit <= value) & (value <= limit)))


def just_above(value, limit):
    """Whether a noise is at least what real numbers need, and more by no more than the lattice."""
    return bool(np.all((limit <= value) & (value <= (1 + LATTICE) * limit)))


def on_lattice(ledger, sensitivity):
    """What moves a Gaussian answer on a full batch by so much moves it on the ledger's lattice."""
    return sensitivity + 2 * np.max(ledger.steps) * np.sqrt(ledger.values)


def trained_on(dataset, *, agents=10, reference=False, seed=None, structure=None, **asked):
    """The training of a request on a data set, as `tacit train` goes about it."""
    request = Request(**asked)
    data = divide(dataset, agents, split_seed=request.split_seed)
    proposal = proposal_for(data, request, structure or StructureRequest())
    return train(data, proposal, reference=reference, seed=seed)


def published(name, **how):
    """A published data set, or the test is skipped where its files cannot be had."""
    try:
        return load(name, **how)
    except DataError:
        pytest.skip(f"{name}: neither under TACIT_DATA_DIR nor to be had from its site")


def pytest_collection_finish():
    """Let the collector pass over all that was imported: it takes a twentieth of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what computes the claims, the reproductions and the images of the papers."""
    for item in items:
        if PAPERS in item.path.parents and item.path.name not in QUICK_OF_THE_PAPERS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Compiled programs of one file are of no use to the next, and add up to gigabytes."""
    yield
    jax.clear_caches()
    # the C library keeps what is freed: without this a worker grows to three times its size
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@pytest.fixture
def shards():
    return make_shards()


@pytest.fixture
def ridge_problem():
    return Problem(Logistic(), L2(0.1), WholeSpace())
