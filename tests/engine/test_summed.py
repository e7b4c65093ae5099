"""Under secure aggregation agents send whole steps, and all that is public follows from sums."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from conftest import computed, make_plan, make_shards, make_terms
from taciturn.algorithms import NoisyGradient
from taciturn.engine.credit import credits_summation
from taciturn.engine.program import server_turns
from taciturn.engine.protocol import at, mean_of
from taciturn.engine.running import records_for_door, run
from taciturn.errors import PrivacyError
from taciturn.kernel.privacy import Messages, Sum, compose
from taciturn.kernel.questions import Point

STEPS = np.array([[1, 2**40, -3], [7, -(2**40), 5], [2**52, 11, 0]])
# the same sums, divided otherwise
MOVED = STEPS + np.array([[12345, -(2**33) - 1, 8], [0, 2**33, -9], [-12345, 1, 1]])


def planned(shards, **changed):
    return make_plan("noisy-gradient", shards, terms=make_terms(observer=Sum(1)), **changed)


@pytest.mark.parametrize(("precision", "tol"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_run_by_whole_steps_is_that_by_messages_but_for_rounding(precision, tol):
    shards = make_shards(precision=precision)
    made = planned(shards, precision=precision)
    assert made.program.summed
    private = records_for_door(made, shards)
    models = [
        computed(dataclasses.replace(made.program, summed=summed), private)[0]
        for summed in (True, False)
    ]
    assert models[0].dtype == jnp.dtype(precision)
    np.testing.assert_allclose(models[0], models[1], rtol=tol, atol=tol)


@pytest.mark.slow
def test_both_runtimes_add_up_the_same_whole_steps():
    shards = make_shards()
    made = planned(shards)
    keep = frozenset({"messages", "publics"})
    one, other = (run(made, shards, runtime=r, seed=4, keep=keep) for r in ("simulate", "serial"))
    assert jnp.issubdtype(one.trace.messages.dtype, jnp.integer)
    np.testing.assert_array_equal(one.trace.messages[0], other.trace.messages[0])
    np.testing.assert_allclose(one.model, other.model, rtol=1e-10)


def test_public_values_are_a_function_of_the_sum_of_whole_steps():
    made = planned(make_shards())
    method, turn = made.program.executed, at(server_turns(made.program), 0)
    public = method.first_public(made.program.template)
    after = [
        method.combine(public, mean_of(jnp.asarray(steps)), turn)
        for steps in (STEPS, STEPS[::-1], MOVED)
    ]
    for other in after[1:]:
        for one, two in zip(jax.tree.leaves(after[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_mean_in_floating_point_would_depend_on_how_the_sum_was_divided():
    """Planted: the same numbers, added as floats of single precision."""
    exact, other = (mean_of(jnp.asarray(steps)) for steps in (STEPS, MOVED))
    np.testing.assert_array_equal(exact, other)
    rounded, elsewhere = (mean_of(jnp.asarray(s, jnp.float32)) for s in (STEPS, MOVED))
    assert np.any(rounded != elsewhere)


def test_whole_steps_are_sent_only_where_summation_is_credited():
    shards = make_shards()
    assert not make_plan("noisy-gradient", shards).program.summed
    assert not make_plan("dp-admm", shards, terms=make_terms(observer=Sum(1))).program.summed


def test_a_plan_that_credits_sums_but_sends_messages_is_refused():
    shards = make_shards()
    made = planned(shards)
    program = dataclasses.replace(made.program, summed=False)
    with pytest.raises(PrivacyError, match="certificate"):
        run(dataclasses.replace(made, program=program), shards, runtime="simulate")


def test_a_method_that_may_not_be_summed_is_refused():
    shards = make_shards()
    made = planned(shards)
    other = make_plan("dp-admm", shards)
    program = dataclasses.replace(made.program, algorithm=other.program.algorithm)
    with pytest.raises(PrivacyError, match="sum"):
        run(dataclasses.replace(made, program=program), shards, runtime="simulate")


@pytest.mark.parametrize("field", ["epsilon", "delta", "mu"])
def test_a_certificate_that_says_less_than_the_ledger_is_refused(field):
    shards = make_shards()
    made = make_plan("noisy-gradient", shards, terms=make_terms(observer=Messages()))
    less = dataclasses.replace(made.certificate, **{field: getattr(made.certificate, field) / 2})
    with pytest.raises(PrivacyError, match="certificate"):
        run(dataclasses.replace(made, certificate=less), shards, runtime="simulate")


def test_the_plan_of_a_reproduction_runs_again_and_keeps_its_stamp():
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    done = run(made, shards, runtime="simulate", seed=0)
    again = dataclasses.replace(made, certificate=done.certificate)
    assert run(again, shards, runtime="simulate").certificate.reproduction


def test_whole_steps_of_different_sizes_are_not_added_up():
    """An edited plan: other agents' steps are eight times as large, in program and ledger alike."""
    shards = make_shards()
    made = planned(shards)
    larger = made.program.exponents.at[..., 1:].add(3)
    program = dataclasses.replace(made.program, exponents=larger)
    step = made.ledger.step.copy()
    step[1:] *= 8
    ledger = dataclasses.replace(made.ledger, step=step)
    edited = dataclasses.replace(made, program=program, ledger=ledger)
    with pytest.raises(PrivacyError, match="different steps"):
        compose((edited.leg,), made.terms).certificate()
    with pytest.raises(PrivacyError, match="different sizes"):
        run(edited, shards, runtime="simulate")


def test_a_certificate_of_a_run_without_noise_promises_nothing():
    shards = make_shards()
    made = planned(shards)
    quiet = make_plan("noisy-gradient", shards, terms=make_terms(math.inf))
    edited = dataclasses.replace(quiet, certificate=made.certificate)
    with pytest.raises(PrivacyError, match="without noise"):
        run(edited, shards, runtime="simulate")


class ByReference(NoisyGradient):
    """Planted: the state goes into a reference, and what is read from it looks public."""

    def ask(self, state, inbox, turn):
        kept = jax.new_ref(jnp.zeros_like(state))
        kept[...] = state
        return Point(inbox.query + kept[...])


class ByTheHost(NoisyGradient):
    """Planted: the aggregator reads single answers that agents left with the host."""

    def combine(self, public, mean_message, turn):
        kind = jax.ShapeDtypeStruct(mean_message.shape, mean_message.dtype)
        left = io_callback(np.asarray, kind, mean_message)
        return super().combine(public, left, turn)


@pytest.mark.parametrize("kind", [ByReference, ByTheHost])
def test_methods_with_effects_are_not_credited(kind):
    program = planned(make_shards()).program
    changed = dataclasses.replace(program, algorithm=kind(program.algorithm.problem))
    assert credits_summation(program)
    assert not credits_summation(changed)
