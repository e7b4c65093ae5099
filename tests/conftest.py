"""Small problems that many tests share."""

import ctypes
import gc
import sys
from collections import defaultdict
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


def bounds_of_ill(source="public", ignore=(), **columns):
    """A bounds file for the labels no and yes of `ill`, with what is said of each column."""
    top = (
        [f'source = "{source}"', f"ignore = {list(ignore)}"] if ignore else [f'source = "{source}"']
    )
    sections = {"target": 'name = "ill"\nvalues = ["no", "yes"]'}
    sections |= {f"columns.{name}": said for name, said in columns.items()}
    return "\n".join([*top, *(f"[{name}]\n{said}" for name, said in sections.items())]) + "\n"


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


# how many parameter sets of a long test are in the quick suite; the slow one has all the others
QUICK_SETS = {
    "test_a_broken_oracle_is_seen": 1,
    "test_a_generated_table_ends_in_a_model_or_in_one_line": 4,
    "test_a_model_around_a_centre_predicts_as_it_was_tested": 1,
    "test_a_run_by_whole_steps_is_that_by_messages_but_for_rounding": 1,
    "test_both_runtimes_agree_and_the_ledger_is_the_planned_one": 2,
    "test_both_runtimes_draw_the_same_from_a_stream": 4,
    "test_no_bounded_change_moves_an_answer_beyond_its_bound": 3,
    "test_no_neighbour_moves_a_difference_beyond_its_bound_and_some_reach_it": 1,
    "test_no_true_divergence_exceeds_the_curve": 2,
    "test_several_blocks_give_the_bits_of_one": 4,
    "test_with_a_regulariser_at_the_agents_both_runtimes_run_under_noise_and_agree": 1,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what computes the papers' claims and images, and most sets of long tests."""
    sets = defaultdict(list)
    for item in items:
        if PAPERS in item.path.parents and item.path.name not in QUICK_OF_THE_PAPERS:
            item.add_marker(pytest.mark.slow)
        name = getattr(item, "originalname", None)
        if name in QUICK_SETS and item.get_closest_marker("slow") is None:
            sets[item.path, name].append(item)
    for (_, name), same in sets.items():
        # spread over all sets, so that each kind of network, batch and loss stays
        quick = QUICK_SETS[name]
        kept = {round(k * (len(same) - 1) / max(quick - 1, 1)) for k in range(quick)}
        for place, item in enumerate(same):
            if place not in kept:
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
