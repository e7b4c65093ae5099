"""Laws 3, 9 and 10: one ledger, one set of bits, two runtimes that agree."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import computed, drawn, make_plan, make_shards, make_terms, packed
from taciturn.algorithms import NoisyGradient
from taciturn.engine import (
    compute,
    records_for_door,
    reproduction,
    run,
    runtimes,
    serial,
    simulate,
    sweep,
)
from taciturn.engine.planning import plan
from taciturn.engine.program import stack
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door import Live
from taciturn.kernel.door.ledgers import observed_ledger
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Laplace,
    Ledger,
    Messages,
    ReplaceOne,
    Sum,
    Terms,
    ZeroOut,
    compose,
)
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Shards
from taciturn.problems import Logistic, MultinomialLogistic, Problem, Squared, public_facts


@pytest.mark.slow
def test_the_two_runtimes_agree_on_ragged_shards_with_many_classes():
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((20, 4)), draw.integers(0, 3, 20)
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    shards = packed(x, y, parts)
    problem = Problem(MultinomialLogistic(3))
    made = make_plan("dp-admm", shards, problem=problem)
    models = [run(made, shards, runtime=r, seed=0).model for r in ("simulate", "serial")]
    assert models[0].shape == (4, 3)
    np.testing.assert_allclose(models[0], models[1], rtol=0, atol=1e-10)


FRESH = itertools.count()


def test_a_door_with_hidden_state_is_told_apart(shards):
    """Law 9's fault: a door with a state of its own does not repeat its bits."""
    made = make_plan("noisy-gradient", shards)
    private = records_for_door(made, shards)

    runs = []
    for _ in range(2):

        class Hidden(Live):  # a new class each time, so that it is traced again
            def realised(self, turns, raw):
                return super().realised(turns, raw._replace(steps=raw.steps + next(FRESH) * 2**20))

        runs.append(np.asarray(computed(made.program, private, door=Hidden)[0]))
    assert not np.array_equal(*runs)


def test_without_a_seed_no_two_runs_are_alike_and_none_is_stamped(shards):
    made = make_plan("noisy-gradient", shards)
    first, second = (run(made, shards, runtime="simulate") for _ in range(2))
    assert not np.allclose(first.model, second.model)
    assert not first.certificate.reproduction


def test_a_seeded_run_is_stamped_as_a_reproduction(shards):
    done = run(make_plan("noisy-gradient", shards), shards, runtime="simulate", seed=1)
    assert done.certificate.reproduction
    assert any("reproduction, not private" in line for line in done.certificate.lines())


def test_a_runtime_with_other_noise_is_told_apart(shards):
    """Law 10's fault: draws that do not depend on the round agree in the first round only."""

    made = make_plan("dp-admm", shards)
    program, private = made.program, records_for_door(made, shards)
    keep, raw = frozenset({"models"}), drawn(program, private)
    repeated = jax.tree.map(lambda leaf: np.broadcast_to(leaf[:1], leaf.shape), raw)
    door = Live(program.oracles, program.mechanism, private)
    _, ours = serial(program, *reproduction(program, private, 0), keep=keep)
    _, theirs = compute(program, door, repeated, keep=keep)
    gap = np.max(np.abs(np.asarray(ours.models) - np.asarray(theirs.models)), axis=1)
    assert gap[0] < 1e-10
    assert gap[-1] > 1e-3


@pytest.mark.slow
def test_a_sweep_equals_its_single_runs(shards, monkeypatch):
    plans = [make_plan("dp-admm", shards, terms=make_terms(epsilon)) for epsilon in (0.5, 2.0)]
    private = records_for_door(plans[0], shards)
    programs = [made.program for made in plans]
    models, _ = sweep(programs, private, seeds=(5, 6, 7), keep=frozenset())
    monkeypatch.setattr(runtimes, "_TOGETHER", 1)  # a seed at a time
    again, _ = sweep(programs, private, seeds=(5, 6, 7), keep=frozenset())
    assert models.shape == (2, 3, 3)
    np.testing.assert_allclose(models, again, atol=1e-12)
    for b, made in enumerate(plans):
        for s, seed in enumerate((5, 6, 7)):
            alone = run(made, shards, runtime="simulate", seed=seed).model
            np.testing.assert_allclose(models[b, s], alone, atol=1e-12)


def test_sweeping_over_different_structures_is_refused(shards):
    programs = [make_plan(name, shards).program for name in ("dp-admm", "noisy-gradient")]
    with pytest.raises(InputError, match="differ in structure"):
        stack(programs)


def test_noise_scales_are_never_rounded_down():
    shards = make_shards(precision="float32")
    made = make_plan("noisy-gradient", shards, precision="float32", terms=make_terms(0.37))
    used = np.moveaxis(np.asarray(made.program.scales, np.float64), -1, 0)
    assert np.all(used >= made.ledger.scale)
    assert np.max(used / made.ledger.scale) < 1 + 2e-7


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: dataclasses.replace(s, features=s.features * 100), "norm"),
        (lambda s: dataclasses.replace(s, features=s.features.at[0, 0, 0].set(jnp.nan)), "norm"),
        (lambda s: dataclasses.replace(s, mask=s.mask * 50), "mask"),
        (lambda s: dataclasses.replace(s, targets=s.targets.at[0, 0].set(jnp.inf)), "target"),
        (lambda s: jax.tree.map(lambda x: x[:3], s), "blocks"),
    ],
)
def test_records_that_break_their_promise_are_refused_at_the_door(spoil, words, shards):
    broken = dataclasses.replace(shards, stacked=spoil(shards.stacked))
    with pytest.raises(PrivacyError, match=words):
        run(make_plan("noisy-gradient", shards), broken, runtime="simulate")


def test_a_program_with_other_oracles_or_questions_is_refused(shards):
    made = make_plan("noisy-gradient", shards)
    program = made.program
    for changed in (
        dataclasses.replace(program, oracles=(*program.oracles, *program.oracles)),
        dataclasses.replace(program, questions=program.questions - 1),
    ):
        with pytest.raises(PrivacyError, match="planned"):
            run(dataclasses.replace(made, program=changed), shards, runtime="simulate")
    for change, words in (({"clip": 0.5}, "same clip"), ({"loss": Squared()}, "same loss")):
        other = (dataclasses.replace(program.oracles[0], **change),)
        changed = dataclasses.replace(made, program=dataclasses.replace(program, oracles=other))
        with pytest.raises(InputError, match=words):
            run(changed, shards, runtime="simulate")


@pytest.mark.parametrize(
    ("less", "mechanism"),
    [
        ({"relation": ZeroOut()}, Gaussian()),
        ({"unit": "record"}, Gaussian()),
        ({"norm": "l2"}, Laplace()),
        ({"values": 1}, Gaussian()),
    ],
)
def test_bounds_of_other_neighbours_norms_or_numbers_than_certified_are_refused(
    less, mechanism, shards
):
    """Planted fault: the ledger has the bounds of less, and its certificate follows from it."""
    terms = Terms(1.0, 1e-5, Adjacency(ReplaceOne(), "agent"), Messages())
    problem = Problem(Logistic())
    facts, oracle = public_facts(problem, shards, clip=1.0), Gradient(Logistic(), 1.0)
    made = plan(
        facts, NoisyGradient(problem), (oracle,), terms,
        rounds=3, precision="float64", mechanism=mechanism,
    )  # fmt: skip
    near = {"relation": ReplaceOne(), "unit": "agent"} | less
    adjacency = Adjacency(near["relation"], near["unit"])
    bound = oracle.bound(facts, adjacency, norm=less.get("norm", mechanism.norm))
    smaller = np.broadcast_to(bound.value, made.ledger.kind.shape)
    values = less.get("values", made.ledger.values)
    ledger = dataclasses.replace(made.ledger, sensitivity=smaller, values=values)
    forged = dataclasses.replace(made, bounds=(bound,), ledger=ledger)
    stated = compose((forged.leg,), terms).certificate()
    assert stated.epsilon < made.certificate.epsilon
    forged = dataclasses.replace(forged, certificate=stated)
    with pytest.raises(PrivacyError, match="not the planned ones"):
        run(forged, shards, runtime="simulate")


def test_a_door_that_forgets_an_answer_is_caught(shards):
    made = make_plan("noisy-gradient", shards)
    private = records_for_door(made, shards)

    class Forgetful(Live):
        def __call__(self, queries, turn, chance):
            answers, record = super().__call__(queries, turn, chance)
            kind = jnp.where(turn.round == 2, -1, record.kind)
            return answers, record._replace(kind=kind)

    _, trace = computed(made.program, private, door=Forgetful)
    observed = observed_ledger(made.ledger, trace.records)
    with pytest.raises(PrivacyError):
        made.ledger.same_as(observed)


def test_a_run_whose_program_was_given_less_noise_releases_nothing(shards):
    made = make_plan("noisy-gradient", shards)
    weaker = dataclasses.replace(made.program, scales=made.program.scales / 2)
    with pytest.raises(PrivacyError):
        run(dataclasses.replace(made, program=weaker), shards, runtime="simulate")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (make_shards(records=11), "record counts"),
        (make_shards(features=4), "4 features"),
        (make_shards(precision="float32"), "float32"),
    ],
)
def test_shards_that_were_not_planned_for_are_refused(other, words, shards):
    with pytest.raises(InputError, match=words):
        run(make_plan("noisy-gradient", shards), other, runtime="simulate")


def test_shards_with_another_record_norm_are_refused(shards):
    other = dataclasses.replace(shards, record_norm=2.0)
    with pytest.raises(InputError, match="record norm"):
        run(make_plan("noisy-gradient", shards), other, runtime="simulate")


def test_shards_made_by_hand_are_refused(shards):
    """Nobody knows whose their records are: here two agents hold the same ones."""
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf[0]] * len(leaf)), shards.stacked)
    with pytest.raises(PrivacyError, match="make them with pack"):
        run(
            make_plan("noisy-gradient", shards),
            Shards(twice, shards.counts, shards.record_norm),
            runtime="simulate",
        )


def test_shards_packed_for_records_are_refused_by_a_plan_for_persons(shards):
    planned = make_plan("noisy-gradient", shards)
    adjacency = Adjacency(ReplaceOne(), "person", rows_per_person=3)
    terms = dataclasses.replace(planned.terms, adjacency=adjacency)
    with pytest.raises(InputError, match=r"persons with 3 places each.*packed for records"):
        run(make_plan("noisy-gradient", shards, terms=terms), shards, runtime="simulate")


def test_a_division_that_anybody_can_repeat_is_stamped(shards):
    origin = dataclasses.replace(shards.origin, reproducible=True)
    done = run(
        make_plan("noisy-gradient", shards),
        dataclasses.replace(shards, origin=origin),
        runtime="simulate",
    )
    assert (done.certificate.reproduction, done.certificate.attacker_tpr) == (True, 1.0)


def test_what_cannot_be_kept_is_named(shards):
    with pytest.raises(InputError, match="cannot keep"):
        run(
            make_plan("noisy-gradient", shards), shards, runtime="simulate",
            keep=frozenset({"shards"}),
        )  # fmt: skip


@pytest.mark.parametrize("runtime", [simulate, serial])
def test_progress_counts_every_round(runtime, shards):
    made = make_plan("noisy-gradient", shards, rounds=4)
    given = reproduction(made.program, records_for_door(made, shards), 0)
    seen = []
    report = lambda done: seen.append(int(done))  # noqa: E731
    runtime(made.program, *given, keep=frozenset(), report=report)
    jax.effects_barrier()
    assert sorted(seen) == [1, 2, 3, 4]


def test_the_observed_ledger_of_a_sum_run_is_the_planned_one(shards):
    made = make_plan("noisy-gradient", shards, terms=make_terms(observer=Sum()))
    done = run(made, shards, runtime="simulate")
    assert isinstance(done.ledger, Ledger)
    np.testing.assert_allclose(
        done.ledger.mu_per_agent(Sum()), made.ledger.mu_per_agent(Sum()), rtol=1e-6
    )
