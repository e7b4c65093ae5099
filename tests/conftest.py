"""Small problems that many tests share."""

import ctypes
import gc
import json
import sys
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np
import pytest

from taciturn.algorithms import DPADMM, NoisyGradient
from taciturn.audit.epsilon import log_likelihood_ratio, lower_bound
from taciturn.datasets import load
from taciturn.engine import compute, reproduction
from taciturn.engine.planning import plan
from taciturn.errors import DataError
from taciturn.kernel.door import Live
from taciturn.kernel.exact import Rival
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.kernel.questions.sampling import gathered
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    Logistic,
    Problem,
    public_facts,
)
from taciturn.training import Request, StructureRequest, divide, proposal_for, train

PAPERS = Path(__file__).parents[1] / "papers" / "taciturn_papers_tests"
QUICK_OF_THE_PAPERS = {"test_commands.py", "test_gallery.py"}


def bounds_of_ill(source="public", ignore=(), **columns):
    """A bounds file for the labels no and yes of `ill`, with what is said of each column."""
    top = (
        [f'source = "{source}"', f"ignore = {list(ignore)}"] if ignore else [f'source = "{source}"']
    )
    sections = {"target": 'name = "ill"\nvalues = ["no", "yes"]'}
    sections |= {f"columns.{name}": said for name, said in columns.items()}
    return "\n".join([*top, *(f"[{name}]\n{said}" for name, said in sections.items())]) + "\n"


def batch_of(oracle, shard, key):
    """Return the records of one batch of an oracle."""
    rows = shard.mask.shape[-1]
    words = jax.random.bits(key, (oracle.sampling.words(rows),), jax.numpy.uint64)
    drawn = oracle.sampling.draw(words, rows, jax.numpy.sum(shard.mask))
    return shard if drawn is None else gathered(shard, drawn)


def packed(features, targets, parts, **changes):
    """These rows divided among agents, of norm 1 at most and in double precision if not said."""
    how = {"record_norm": 1.0, "precision": "float64"} | changes
    return pack(features, targets, parts, **how)


def make_shards(*, agents=4, records=12, features=3, seed=0, precision="float64", classes=None):
    draw = np.random.default_rng(seed)
    rows = agents * records
    x = draw.standard_normal((rows, features))
    y = draw.integers(0, classes, rows) if classes else np.sign(draw.standard_normal(rows))
    parts = np.split(np.arange(rows), agents)
    return pack(x, y, parts, record_norm=1.0, precision=precision)


def make_terms(epsilon=1.0, delta=1e-5, observer=None, relation=None):
    return Terms(
        epsilon, delta, Adjacency(relation or ReplaceOne(), "record"), observer or Messages()
    )


def floating_types(kept):
    """The types of what a sweep keeps, but of the size of the noise, which is in doubles."""
    leaves = jax.tree.leaves_with_path(kept)
    others = (x for path, x in leaves if not jax.tree_util.keystr(path).endswith(".drawn"))
    return {x.dtype for x in others if np.issubdtype(x.dtype, np.floating)}


def make_algorithm(name, problem):
    if name == "dp-admm":
        return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")
    if name == "dp-admm-published":
        return DPADMM(problem, rho=0.1, radius=5.0, step_rule="nonsmooth", regulariser_at="agents")
    return NoisyGradient(problem)


def make_plan(name, shards, *, problem=None, terms=None, rounds=6, clip=1.0, precision="float64"):
    problem = problem or Problem(Logistic())
    return plan(
        public_facts(problem, shards, clip=clip), make_algorithm(name, problem),
        (Gradient(problem.loss, clip),), terms or make_terms(), rounds=rounds, precision=precision,
    )  # fmt: skip


def plan_of(algorithm, shards, oracles=None, terms=None, *, clip=1.0, problem=None, **more):
    """The plan of an algorithm in the precision of these records; it asks for their gradient."""
    problem = problem or algorithm.problem
    more = {"rounds": 6, "precision": shards.stacked.features.dtype.name} | more
    return plan(
        public_facts(problem, shards, clip=clip), algorithm,
        oracles or (Gradient(problem.loss, clip),), terms or make_terms(), **more,
    )  # fmt: skip


# what rounding answers to a lattice costs a plan of full batches, at most: 2^-21 of the noise and
# twice that of epsilon (taciturn.kernel.privacy.mechanisms)
LATTICE = 1e-6
# what rounding adds to the bound of a proximal or projected step (taciturn.kernel.questions.sums)
ROUNDED = 1 + 2.0**-9


def drawn(program, private, seed=0):
    """Return the random numbers of a whole reproduction."""
    return reproduction(program, private, seed)[1].block(0, program.rounds)


def computed(program, private, *, seed=0, keep=frozenset(), door=Live):
    """Return model and trace of a reproduction, behind a door of that class."""
    behind = door(program.oracles, program.mechanism, private)
    return compute(program, behind, drawn(program, private, seed), keep=keep)


def attacked_mu(program, first, second, *, runs=400):
    """Return the lower bound on mu that likelihood ratios of runs on either data set prove."""

    @jax.jit
    def ratios(door, raw):
        def one(raw):
            records = compute(program, door, raw, keep=frozenset())[1].records
            return log_likelihood_ratio(records, program.mechanism, Messages())

        return jax.vmap(one)(raw)

    sides = []
    for seed, actual in ((1, first), (2, second)):
        live, supply = reproduction(program, actual, seed)
        door = Rival(live, program.oracles, first, second)
        sides.append(np.asarray(ratios(door, supply.repeated(runs))))
    return lower_bound(*sides, confidence=0.95).mu


def just_below(value, limit):
    """Whether a cost is at most what real numbers give, and less by no more than the lattice."""
    return bool(np.all(((1 - LATTICE) * limit <= value) & (value <= limit)))


def just_above(value, limit):
    """Whether a noise is at least what real numbers need, and more by no more than the lattice."""
    return bool(np.all((limit <= value) & (value <= (1 + LATTICE) * limit)))


def on_lattice(ledger, sensitivity):
    """What moves a Gaussian answer on a full batch by so much moves it on the ledger's lattice."""
    return sensitivity + 2 * np.max(ledger.step) * np.sqrt(ledger.values)


def trained_on(dataset, *, agents=10, reference=False, seed=None, structure=None, **asked):
    """The training of a request on a data set, as `taciturn train` goes about it."""
    request = Request(**asked)
    data = divide(dataset, agents, split_seed=request.split_seed)
    proposal = proposal_for(data, request, structure or StructureRequest())
    return train(data, proposal, reference=reference, seed=seed)


def published(name, **how):
    """A published data set, or the test is skipped where its files cannot be had."""
    try:
        return load(name, **how)
    except DataError:
        pytest.skip(f"{name}: neither under TACITURN_DATA_DIR nor to be had from its site")


def pytest_collection_finish():
    """Let the collector pass over all that was imported: it takes a twentieth of the time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


# how many parameter sets of a test dearer than 0.8 s of processor time are in the quick suite, at
# least one of a law; the slow suite has all the others
QUICK_SETS = json.loads(Path(__file__).with_name("quick_sets.json").read_text())

# files with minutes of slow tests, the longest first: begun last, one alone would keep a core busy
# while the other waits (`make test-slow`)
LONGEST = (
    "audit/test_conformance.py", "inference/test_families.py", "audit/test_deployed_sums.py",
    "federation/test_runs.py", "house/test_wheels.py", "audit/test_audit.py",
    "estimators/test_checks.py", "federation/test_processes.py",
    "algorithms/test_every_method.py", "privacy/test_certificate_files.py",
    "algorithms/test_newton.py", "algorithms/test_splitting.py", "engine/test_devices.py",
    "claims/test_claims.py", "reproductions/test_portions.py", "claims/test_wang2024.py",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what computes the papers' claims and images, and most sets of long tests.

    The longest files come first.
    """
    place_of = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place_of.get("/".join(item.path.parts[-2:]), len(LONGEST)))
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
    return Problem(Logistic(), L2(0.1))
