"""Faults in what stands behind the door: losses, supplies, streams, targets, choices, persons."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.attacks.subjects import AskOnce

from conftest import make_plan, make_shards
from taciturn.engine import plan, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door import Supply, check_arithmetic, choose, opening
from taciturn.kernel.door.affine import has_no_effects
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.noise.stream import Use
from taciturn.kernel.privacy import Adjacency, Gaussian, Messages, TargetChange, Terms
from taciturn.kernel.questions import (
    AtStep,
    Gradient,
    Point,
    ProjectedStep,
    Recentred,
    Residual,
    Squared,
    Tally,
    TargetGradient,
    Targets,
    custom_classes,
)
from taciturn.kernel.records import Draw, Persons, check_origins, hold_out, pack
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, facts_from


def packed(rows, targets, parts=None, **how):
    parts = [np.arange(len(rows))] if parts is None else parts
    return pack(rows, targets, parts, record_norm=1.0, precision="float64", **how)


class Plain:
    """What looks like a loss, and sees all records at once: their sign follows from one target."""

    lipschitz, smoothness, outputs = 1.0, 1.0, None

    def coefficient(self, margins, targets):
        return jnp.where(jnp.any(targets > 0), 1.0, -1.0) * jnp.ones_like(margins)


class PlainProblem:
    """What looks like a problem, with a map that expands."""

    loss, closed_form = Logistic(), True

    def prox(self, v, step):
        return 1000 * v


@pytest.mark.unchecked
def test_what_is_no_loss_is_mapped_over_records_and_named():
    question, answers = Gradient(Plain(), 1.0), []
    for first in (-1.0, 1.0):
        targets = np.full(60, -1.0)
        targets[0] = first
        private = opening.prepared((question,), Gaussian(), packed(np.ones((60, 1)), targets))
        shard, count = jax.tree.map(lambda leaf: leaf[0], private)
        answers.append(np.asarray(question.exact(shard, count, Point(jnp.zeros(1)))))
    # 60 where it sees all records at once
    assert abs(answers[0] - answers[1])[0] * 60 / 2 <= 1 + 1e-9
    assert custom_classes(question) == (Plain,)


def test_what_is_no_problem_or_has_something_in_place_of_its_class_is_its_authors_claim():
    question = ProjectedStep(Problem(Logistic(), NoRegulariser(), WholeSpace()), 1.0)
    assert question.claims() == ()
    object.__setattr__(question, "problem", PlainProblem())
    assert question.claims() == (f"{__name__}:PlainProblem",)
    loss = Squared()
    object.__setattr__(loss, "coefficient", Plain().coefficient)
    assert custom_classes(loss) != ()
    assert custom_classes(Squared()) == ()


@pytest.mark.parametrize("call", [jax.pure_callback, jax.experimental.io_callback])
def test_a_method_that_hands_values_to_the_host_is_not_credited_with_a_sum(call):
    def sent(value):
        return call(lambda x: x, jax.ShapeDtypeStruct((), jnp.float64), value)

    assert not has_no_effects(sent, (jnp.zeros(()),))
    assert has_no_effects(lambda value: 2 * value, (jnp.zeros(()),))


def test_an_agent_is_asked_once_at_each_place():
    agenda = make_plan("noisy-gradient", make_shards(agents=3)).program.agenda
    twice = agenda._replace(turns=agenda.turns._replace(agent=agenda.turns.agent * 0))
    with pytest.raises(PrivacyError, match="asked twice"):
        Supply(twice, Stream.fresh(), 12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:")
def test_a_stream_draws_nothing_in_another_process():
    stream, seen = Stream.fresh(), os.pipe()
    stream.words([Label(0, 0, 0)], Use.NOISE, 1)
    child = os.fork()
    if child == 0:
        try:
            stream.words([Label(0, 0, 1)], Use.NOISE, 1)
        except PrivacyError:
            os.write(seen[1], b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    os.set_blocking(seen[0], False)
    assert os.read(seen[0], 10) == b"refused"


def test_a_machine_that_knows_no_nan_runs_nothing(monkeypatch):
    true = opening._special

    def fast(values):
        return jnp.zeros_like(values, bool), *true(values)[1:]

    check_arithmetic()
    monkeypatch.setattr(opening, "_special", fast)
    with pytest.raises(PrivacyError, match="fast arithmetic"):
        check_arithmetic()


def test_protected_targets_in_single_precision_are_refused():
    shards = make_shards(precision="float32")
    with pytest.raises(PrivacyError, match="pack in float64"):
        opening.prepared((Targets(shards.counts[0]),), Gaussian(), shards)


@pytest.mark.parametrize("question", [Targets(8), Residual(8), TargetGradient()])
def test_targets_are_not_asked_for_around_a_centre(question):
    """In single precision 2^24 + 0.9 and 2^24 + 1.1 lie 2 apart: 10 times as far as they moved."""
    with pytest.raises(InputError, match="no target is protected"):
        Recentred(question, 1.0, 0.3)


@pytest.mark.parametrize("steps", [None, 2])
def test_targets_are_asked_step_by_step_only_where_they_lie_so(steps):
    """In the places of persons all of one would stand in one block: sqrt(S) times the bound."""
    persons = Persons(np.repeat(np.arange(4), 4), 4, Draw.secret())
    near = Adjacency(TargetChange(1.0), "person", 4)
    shards = packed(np.ones((16, 1)), np.zeros(16), persons=persons)
    shards = dataclasses.replace(shards, origin=dataclasses.replace(shards.origin, steps=steps))
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    facts = facts_from(problem, shards.counts, features=1, record_norm=1.0, clip=1.0)
    method = AskOnce(problem, AtStep(jnp.asarray(0)), (4,))
    terms = Terms(1.0, 1e-6, near, Messages())
    made = plan(facts, method, (Targets(4, 4),), terms, rounds=1, precision="float64")
    with pytest.raises(PrivacyError, match="no block for each step"):
        run(made, shards, runtime="serial")
    blocks = dataclasses.replace(shards, origin=dataclasses.replace(shards.origin, steps=4))
    assert run(made, blocks, runtime="serial").certificate.epsilon <= 1


def test_a_choice_looks_at_the_records_that_it_counts():
    shards = make_shards(agents=2)
    kept = dataclasses.replace(shards.origin, side="training", rows=())
    held = dataclasses.replace(shards.origin, side="held out")
    shards = dataclasses.replace(shards, origin=held)
    heavy = dataclasses.replace(shards.stacked, mask=shards.stacked.mask.at[0, 0].set(100))
    wrong, model = dataclasses.replace(shards, stacked=heavy), np.zeros(shards.dimension)
    choose([(Tally(2), model, shards, kept)], 1.0, Stream.fresh())
    for asked, other, words in ((wrong, kept, "neither 0 nor 1"), (shards, held, "the two sides")):
        with pytest.raises(PrivacyError, match=words):
            choose([(Tally(2), model, asked, other)], 1.0, Stream.fresh())


def test_no_person_is_on_both_sides():
    persons, everybody = Persons(np.repeat(np.arange(10), 4), 2), [np.arange(40)]

    def sides(**how):
        divided = hold_out(everybody, 0.5, **how)
        return (packed(np.eye(40), np.ones(40), side, persons=persons).origin for side in divided)

    with pytest.raises(PrivacyError, match="whole persons"):
        check_origins(*sides())
    check_origins(*sides(persons=persons))
