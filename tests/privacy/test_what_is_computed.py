"""Ways in which what is computed, without a seed, could differ from what a certificate is of."""

import dataclasses
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_plan, make_shards, make_terms
from taciturn.algorithms import AnswerMessages, NoisyGradient
from taciturn.engine import compute, reproduction
from taciturn.engine.planning import plan
from taciturn.engine.running import records_for_door, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.noise.gaussian import Uniform, mp
from taciturn.kernel.privacy import Adjacency, SensitivityBound, Sum, TargetChange, Terms
from taciturn.kernel.questions import (
    AddedNoise,
    Gradient,
    MinibatchGradient,
    Oracle,
    Point,
    TargetGradient,
)
from taciturn.kernel.records import Shard, pack
from taciturn.problems import (
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    facts_from,
    public_facts,
)

LOGISTIC = Problem(Logistic(), NoRegulariser(), WholeSpace())
SQUARED = Problem(Squared(), NoRegulariser(), WholeSpace())
ANSWERS = frozenset({"answers"})


class Silent(AddedNoise):
    """A placement of noise that leaves it out."""

    def answer(self, exact, shard, count, query, noise):
        return exact(shard, count, query)


class Unnoised(Gradient):
    """A question of a user's own, with that placement."""

    @property
    def noise(self):
        return Silent()


class Alternating(NoisyGradient):
    """Asks its two questions in turn."""

    def questions(self, rounds):
        return (np.arange(rounds) % 2)[:, None]


class Elsewhere(NoisyGradient):
    """Asks far from 0."""

    def ask(self, state, inbox, turn):
        return Point(jnp.full_like(inbox.query, 1e10))


class Offset(Oracle):
    """The mean target, added to a large public number."""

    beta: float = eqx.field(static=True)

    @property
    def exact_on_machine(self):
        return True

    def exact(self, shard, count, query):
        return 65.0 + jnp.sum(shard.targets * shard.mask)[None] / count

    def bound(self, spec, adjacency, *, norm):
        return SensitivityBound(np.full((spec.agents, 1, 1), self.beta), norm, adjacency, "beta")


def planned_for(facts, problem, *oracles, method=NoisyGradient, terms=None, **how):
    how = {"rounds": 2, "precision": "float64", **how}
    return plan(facts, method(problem), oracles, terms or make_terms(), **how)


def test_bounds_that_were_edited_along_with_the_question_are_refused(shards):
    planned = make_plan("noisy", shards, clip=0.5)
    other = make_plan("noisy", shards, clip=1.0)
    program = dataclasses.replace(planned.program, oracles=other.program.oracles)
    edited = dataclasses.replace(planned, program=program, bounds=other.bounds, spec=other.spec)
    with pytest.raises(PrivacyError, match="planned"):
        run(edited, shards, runtime="simulate")


def test_a_question_with_a_noise_placement_of_its_own_is_refused(shards):
    spec = public_facts(LOGISTIC, shards, clip=1.0)
    with pytest.raises(InputError, match="noise"):
        planned_for(spec, LOGISTIC, Unnoised(Logistic(), 1.0))


@pytest.mark.parametrize(("rate", "records"), [(0.5, None), (0.05, None), (0.2, 100)])
@pytest.mark.parametrize("runtime", ["simulate", "serial"])
def test_without_noise_and_seed_batches_are_drawn_all_the_same(rate, records, runtime):
    shards = make_shards(agents=2, records=100)
    question = MinibatchGradient(Logistic(), 1.0, rate, records=records)
    facts = public_facts(LOGISTIC, shards, clip=1.0)
    planned = planned_for(facts, LOGISTIC, question, terms=make_terms(epsilon=np.inf))
    one, other = (
        np.asarray(run(planned, shards, runtime=runtime, keep=ANSWERS).trace.records.answer)
        for _ in range(2)
    )
    assert not np.array_equal(one, other)


def test_sums_are_exact_beside_a_question_about_targets():
    draw = np.random.default_rng(0)
    rows, targets = draw.standard_normal((50, 3)), draw.uniform(-1, 1, 50)
    shards = pack(rows, targets, [np.arange(50)], record_norm=1.0, precision="float64",
                  )  # fmt: skip
    both = (Gradient(Squared(), 1.0), TargetGradient(2.0))
    facts, terms = public_facts(SQUARED, shards, clip=1.0), make_terms(relation=TargetChange(0.1))
    planned = planned_for(facts, SQUARED, *both, method=Alternating, terms=terms)
    assert records_for_door(planned, shards).shard.grid is not None


def test_a_question_about_targets_is_not_planned_where_targets_would_be_rounded():
    """Two targets 1e-4 apart at 10,000 are 1e-3 apart in single precision."""
    spec = facts_from(SQUARED, (4,), features=1, record_norm=1.0, clip=1.0)
    with pytest.raises(InputError, match="float64"):
        planned_for(spec, SQUARED, TargetGradient(2e4), precision="float32",
                    terms=make_terms(relation=TargetChange(1e-4)))  # fmt: skip


def test_a_run_is_checked_again_under_another_precision_and_uses_no_program_of_fewer_digits():
    """A reproduction is not checked, and what was compiled for it was found by the next run."""
    shards = make_shards(records=60, features=17)
    planned = make_plan("noisy", shards)
    kept = {"seed": 1, "keep": ANSWERS}
    run(planned, shards, runtime="simulate")
    with jax.default_matmul_precision("BF16_BF16_F32"):
        with pytest.raises(PrivacyError, match="rounds"):
            run(planned, shards, runtime="simulate")
        run(planned, shards, runtime="simulate", **kept)
    ours, exact = (
        run(planned, shards, runtime=runtime, **kept).trace.records.answer
        for runtime in ("simulate", "serial")
    )
    np.testing.assert_array_equal(ours, exact)


def test_the_precision_of_one_draw_is_not_reset_by_another_thread():
    inside, left, seen = threading.Event(), threading.Event(), []

    def first():
        inside.wait(2)
        return mp.mpf(1) / 3

    def second():
        inside.set()
        left.wait(2)
        seen.append(mp.prec)
        return mp.mpf(1) / 3

    def run_first():
        Uniform(5, 64, iter([])).below(first)
        left.set()

    def run_second():
        Uniform(5, 64, iter([])).below(second)

    threads = [threading.Thread(target=one) for one in (run_first, run_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[0] >= 128


def test_records_beyond_what_squares_can_hold_are_refused():
    """The square of such a coefficient underflows, so that its norm would not be limited."""
    problem = Problem(MultinomialLogistic(classes=2), NoRegulariser(), WholeSpace())
    with pytest.raises(InputError, match="at most"):
        facts_from(problem, (8,), features=1, record_norm=1e150, clip=1e-165)
    shard = Shard(jnp.full((8, 1), 1e120), jnp.zeros(8, int), jnp.ones(8))
    answer = Gradient(problem.loss, 1e-30).exact(shard, jnp.asarray(8.0), Point(jnp.zeros((1, 2))))
    assert float(jnp.linalg.norm(answer)) <= 1e90


def of_zero_and(first, *, agents, precision):
    """One record per agent; the target of the first is given, the others' are 0."""
    targets = np.zeros(agents)
    targets[0] = first
    parts = [np.array([agent]) for agent in range(agents)]
    rows = np.ones((agents, 1))
    return pack(rows, targets, parts, record_norm=1.0, precision=precision)


def summed_plan(shards, method, oracle, *, beta, **how):
    terms = Terms(1.0, 1e-5, Adjacency(TargetChange(beta), "record"), Sum(1))
    facts = public_facts(SQUARED, shards, clip=1.0)
    return planned_for(facts, SQUARED, oracle, method=method, terms=terms, **how)


def in_deviations(first, second):
    """How far two samples are apart, in standard deviations of their total."""
    deviation = np.sqrt((np.var(first) + np.var(second)) / 2)
    return abs(np.mean(second) - np.mean(first)) / deviation * np.sqrt(len(first))


@pytest.mark.slow
def test_summed_noise_is_not_credited_where_a_public_part_rounds_every_message_by_itself():
    """Beside 1e10 the noise of one agent, small under `sum`, is rounded away before the sum."""
    agents, rounds, spacing = 2001, 25, float(np.spacing(1e10))
    beta, summed = spacing / 8, []
    for move in (-beta / 2, beta / 2):
        shards = of_zero_and(-spacing / 2 + move, agents=agents, precision="float64")
        planned = summed_plan(
            shards, Elsewhere, TargetGradient(1.0), beta=beta, rounds=rounds, precision="float64"
        )
        done = run(planned, shards, runtime="simulate", keep=frozenset({"messages"}))
        summed.append((np.asarray(done.trace.messages)[:, :, 0] - 1e10).sum(axis=1))
    assert in_deviations(*summed) < planned.certificate.mu + 5


class ShowsTheMean(AnswerMessages):
    """Its public value is the mean of the answers."""

    problem: Problem

    def schedule(self, spec, rounds, noise):
        return {}

    def first_public(self, template):
        return template

    def ask(self, state, inbox, turn):
        return Point(inbox)

    def combine(self, public, mean_message, turn):
        return mean_message

    def model(self, public):
        return public


def sums_of(summed, world):
    """400 runs' sums of 101 messages near 65, noised by an eighth of the last digit of float32."""
    agents, runs, spacing = 101, 400, float(np.spacing(np.float32(65)))
    beta = spacing / 2.8
    target = spacing / 2 + (world - 0.5) * beta
    shards = of_zero_and(target, agents=agents, precision="float32")
    planned = summed_plan(
        shards, ShowsTheMean, Offset(beta), beta=beta, rounds=1, precision="float32"
    )
    program = dataclasses.replace(planned.program, summed=summed)
    private = records_for_door(planned, shards)

    door, supply = reproduction(program, private, world)

    def messages(raw):
        return compute(program, door, raw, keep=frozenset({"messages"}))[1].messages

    sent = jax.vmap(messages)(supply.repeated(runs))
    return planned, np.asarray(sent, np.float64)[:, 0, :, 0].sum(axis=1)


@pytest.mark.parametrize("summed", [True, False])
def test_sums_of_whole_steps_keep_their_noise_and_sums_of_rounded_messages_do_not(summed):
    """Planted: every agent rounds its message by itself, as it would without whole steps."""
    planned, one = sums_of(summed, 0)
    _, other = sums_of(summed, 1)
    assert planned.program.summed
    apart = in_deviations(one, other) / np.sqrt(len(one))
    assert (apart < 1.5 * planned.certificate.mu + 0.1) == summed
