"""A fault outside the kernel costs accuracy, never privacy: it is refused, or it harms nothing.

Each is planted in what only proposes: an edited plan, a method, a loss, a runtime, records, legs,
an account. `REFUSED`: nothing is released. `HARMLESS`: it is, and a measurement says why that is
well. Forgers are thorough: where they edit a plan they compute the certificate of what they have
edited (`restated`), as the library would.
"""

import copy
import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.attacks import faults as f
from tests.attacks.faults import edited, made, planned, released, said_of, spoiled, with_draws
from tests.evaluation.test_evaluation import made as records_of
from tests.evaluation.test_evaluation import trained

from conftest import make_shards, make_terms
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import network, records_for_door, reserve
from taciturn.errors import AccountError, InputError, PrivacyError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.estimators.pipelines import check_pipeline
from taciturn.kernel.privacy import (
    Adjacency,
    ChoiceLeg,
    Inside,
    Laplace,
    NoNoise,
    ReplaceOne,
    Sum,
    ZeroOut,
    compose,
)
from taciturn.kernel.questions import Gradient, MinibatchGradient, Squared
from taciturn.network import metropolis, ring
from taciturn.problems import Logistic, public_facts
from taciturn.training import evaluation

PLANNED, OBSERVED, LEDGER = "not the planned ones", "observed", "not follow from its ledger"
TRUSTED = "whose code is trusted"
OWN = "no accountant knows"

# what a certificate says, and what a forger makes of it
SAYS = {
    "epsilon": lambda its: its.epsilon / 2,
    "delta": lambda its: its.delta / 2,
    "mu": lambda its: its.mu / 2,
    "adjacency": lambda its: Adjacency(ReplaceOne(), "agent"),
    "observer": lambda its: "sum",
    "trust": lambda its: "nobody need be trusted",
    "per_agent_epsilon": lambda its: (0.1, *its.per_agent_epsilon[1:]),
    "per_agent_mu": lambda its: None,
    "attacker_tpr": lambda its: 0.01,
    "arithmetic": lambda its: "holds on any machine",
    "legs": lambda its: (),
    "dealt": lambda its: True,
}


def forged(field):
    """The plan with a certificate of which a field says something else."""
    said = made().certificate
    return edited(certificate=dataclasses.replace(said, **{field: SAYS[field](said)}))


def runs(kind="plain", **changes):
    return released(edited(kind, **changes))


def own(field, kind="plain"):
    """A number of the ledger that faults are planted in."""
    return getattr(made(kind).ledger, field)


# what is planted, and a word of what refuses it
REFUSED = {
    # bounds
    "a bound of a thousandth": (PLANNED, lambda: released(f.smaller_bound(f.THOROUGH))),
    "a bound of half": (PLANNED, lambda: released(f.smaller_bound(0.5))),
    "a bound of nearer neighbours": (PLANNED, lambda: released(f.smaller_bound(near=f.NEARER))),
    "a bound of nearer neighbours under the name of others": (
        PLANNED, lambda: released(f.smaller_bound(near=f.NEARER, adjacency=made().terms.adjacency)),
    ),
    "a bound of a smaller clip": (
        PLANNED, lambda: released(f.smaller_bound(question=Gradient(Logistic(), 0.5))),
    ),
    "a bound that is left out": (PLANNED, lambda: runs(bounds=())),
    "more records in the public facts": (
        PLANNED, lambda: runs(spec=said_of(made().spec, counts=(120,) * 4), restate=True),
    ),
    "a sensitivity of a thousandth in the ledger": (
        PLANNED, lambda: runs(ledger={"sensitivity": own("sensitivity") / 1e3}, restate=True),
    ),
    # scales and lattices
    "a thousandth of the noise in program, ledger and certificate": (
        "too coarse", lambda: released(f.less_noise(restate=True)),
    ),
    "steps as large as the noise in program, ledger and certificate": (
        "too coarse", lambda: released(f.other_lattice(25, restate=True)),
    ),
    "a thousandth of the noise in the ledger": (
        OBSERVED, lambda: released(f.less_noise(program=False, restate=True)),
    ),
    "a thousandth of the noise in the program": (
        OBSERVED, lambda: released(f.less_noise(ledger=False)),
    ),
    "a thousandth of the noise in both": (LEDGER, lambda: released(f.less_noise())),
    "a scale that is no number": (
        OBSERVED, lambda: runs(program={"scales": made().program.scales * np.nan}),
    ),
    "a scale below 0": (OBSERVED, lambda: runs(program={"scales": -made().program.scales})),
    "no noise for one agent in one round": (
        OBSERVED, lambda: runs(program={"scales": made().program.scales.at[2, 0, 1].set(0.0)}),
    ),
    "larger steps in the program": (OBSERVED, lambda: released(f.other_lattice(1, ledger=False))),
    "larger steps in the ledger": (
        OBSERVED, lambda: released(f.other_lattice(1, program=False, restate=True)),
    ),
    "larger steps in both": (LEDGER, lambda: released(f.other_lattice(1))),
    "no lattice in the ledger": (
        OBSERVED, lambda: runs(ledger={"step": 0 * own("step")}, restate=True),
    ),
    # what is asked
    "a round that is not in the ledger": (
        PLANNED,
        lambda: runs(
            ledger={"kind": np.where(np.arange(f.ROUNDS)[:, None] > 0, own("kind"), -1)},
            restate=True,
        ),
    ),
    "a program that runs twice as long": (
        PLANNED, lambda: released(dataclasses.replace(made(), program=f.repeated(0))),
    ),
    "a program that asks twice in a round": (
        PLANNED, lambda: released(dataclasses.replace(made(), program=f.repeated(1))),
    ),
    "questions in another order": (
        PLANNED, lambda: runs("two questions", program={"questions": f.backwards("questions")}),
    ),
    "a question more": (PLANNED, lambda: runs(program={"oracles": made().program.oracles * 2})),
    "a question of somebody's own in its place": (
        TRUSTED, lambda: runs(program={"oracles": (f.Tenfold(Logistic(), 1.0),)}),
    ),
    "a question about batches in its place": (
        PLANNED, lambda: runs(program={"oracles": (MinibatchGradient(Logistic(), 1.0, 0.5),)}),
    ),
    # batches
    "a smaller sampling rate in the ledger": (
        PLANNED,
        lambda: runs("sampled", ledger={"rate": own("rate", "sampled") / 2}, restate=True),
    ),
    "batches of a fixed size in the ledger": (
        PLANNED,
        lambda: runs("sampled", ledger={"batch": own("batch", "sampled") + 1}, restate=True),
    ),
    "larger batches than were planned": (
        PLANNED, lambda: runs("sampled", program={"oracles": f.larger_batches()}),
    ),
    "a sampling rate for answers on all records": (
        PLANNED, lambda: runs(ledger={"rate": own("rate") / 100}, restate=True),
    ),
    # laws
    "a program without noise": ("adds NoNoise", lambda: runs(program={"mechanism": NoNoise()})),
    "noise of another law": ("adds Laplace", lambda: runs(program={"mechanism": Laplace()})),
    "noise that is said to stand inside an objective": (
        PLANNED, lambda: runs(ledger={"inside": Inside(np.zeros(4), np.zeros(4))}, restate=True),
    ),
    "three numbers that are said to be one": (
        PLANNED, lambda: runs(ledger={"values": 1}, restate=True),
    ),
    # networks, sums and terms
    "a network of fewer agents": (PLANNED, lambda: runs(program={"network": network.Star(3)})),
    "a sum where none is credited": (
        "added up",
        lambda: runs(
            terms=make_terms(observer=Sum(1)), restate=True,
            program={"summed": True, "algorithm": f.AsksAtItsAnswers(f.LOGISTIC)},
        ),
    ),
    "messages where a sum is credited": (
        LEDGER, lambda: runs("summed", program={"summed": False}),
    ),
    "whole steps of different sizes": (
        "different steps",
        lambda: runs(
            "summed", restate=True,
            program={"exponents": made("summed").program.exponents.at[..., 1:].add(3)},
            ledger={"step": own("step", "summed") * np.array([1, 8, 8, 8])[:, None, None]},
        ),
    ),
    "fewer colluders in the terms": (
        LEDGER, lambda: runs("summed", terms=make_terms(observer=Sum(0))),
    ),
    "a smaller delta in the terms": (LEDGER, lambda: runs(terms=make_terms(delta=1e-9))),
    "nearer neighbours in the terms": (PLANNED, lambda: runs(terms=make_terms(relation=ZeroOut()))),
    # certificates
    **{
        f"a certificate with another {field}": (LEDGER, lambda its=field: released(forged(its)))
        for field in SAYS
    },
    "the certificate of a smaller budget": (
        LEDGER, lambda: runs(certificate=planned(terms=make_terms(0.5)).certificate),
    ),
    "a claim that is no longer said": (
        TRUSTED, lambda: runs("claimed", certificate=f.unconditional(made("claimed").certificate)),
    ),
    # records
    "rows that are longer than their norm": (
        "norm above", lambda: released(made(), spoiled(features=lambda x: 10 * x)),
    ),
    "a larger norm that is called the planned one": (
        "norm above", lambda: released(made(), said_of(f.packed(norm=2.0), record_norm=1.0)),
    ),
    "a row that is no number": (
        "norm above", lambda: released(made(), spoiled(features=lambda x: x.at[0, 0].set(jnp.nan))),
    ),
    "masks of 2": ("mask", lambda: released(made(), spoiled(mask=lambda mask: 2 * mask))),
    "an infinite target": (
        "target", lambda: released(made(), spoiled(targets=lambda y: y.at[0, 0].set(jnp.inf))),
    ),
    "rows that nobody packed": ("pack", lambda: released(made(), said_of(f.SHARDS, origin=None))),
    "counts that are said to be the planned ones": (
        "more records",
        lambda: released(made(), said_of(make_shards(records=13), counts=(12,) * 4)),
    ),
    "an agent less": (
        "blocks", lambda: released(made(), said_of(make_shards(agents=3), counts=(12,) * 4)),
    ),
    "a row that is trained on and held out": ("held out as well", f.held_out_twice),
    "a record that is trained on and held out": ("trained on would be evaluated", f.overlapping),
    "held-out records of another division": ("different tables", f.of_another_table),
    # supplies and runtimes
    "a stream that serves two supplies": ("served a run", f.supply_twice),
    "a supply that is copied": ("neither pickled", lambda: copy.copy(f.supply())),
    "a round that is drawn twice": ("drawn before", f.block_twice),
    "a runtime that leaves the noise out": (
        f.DRAWN, with_draws(lambda raw: raw._replace(steps=0 * raw.steps)),
    ),
    "a runtime that divides the noise": (
        f.DRAWN, with_draws(lambda raw: raw._replace(steps=raw.steps // 1000)),
    ),
    "a runtime that says another scale": (
        OBSERVED, with_draws(lambda raw: raw._replace(scale=2 * raw.scale)),
    ),
    "a runtime that gives rounds the noise of the first": (f.DRAWN, with_draws(f.of_the_first)),
    "a runtime that gives agents the noise of the first": (f.DRAWN, with_draws(f.of_one_agent)),
    "a round that forgets an answer": (OBSERVED, f.asks(f.forgets)),
    "a round that asks twice under one noise": ("asked twice", f.asks(f.twice)),
    # legs
    "legs of other neighbours": (
        "other neighbours", lambda: f.legs(adjacency=f.NEARER, part="held out"),
    ),
    "legs on one part with other records": ("records", lambda: f.legs(records=(99,) * 4)),
    "a leg that is credited with a sum": (
        "weaker observer", lambda: f.legs(observer=Sum(0), part="held out"),
    ),
    "a second part of all records of an agent": ("both parts", f.at_agents),
    "a choice by records that answer elsewhere": (
        "elsewhere", lambda: compose((made().leg, ChoiceLeg("training", 1e-3)), made().terms),
    ),
    "a leg of agents that are named twice": (
        "distinct agents", lambda: f.legs(agents=(0, 0, 1, 2), part="held out"),
    ),
}  # fmt: skip

# the same, of what is wrong with what was given before privacy comes into it
REFUSED_AS_INPUT = {
    "a bound that is no number": ("NaN", lambda: f.smaller_bound(np.nan)),
    "steps that are too fine for exact noise": (
        r"2\^40", lambda: released(f.other_lattice(-30, restate=True)),
    ),
    "a question of another clip in its place": (
        "same clip", lambda: runs(program={"oracles": (Gradient(Logistic(), 0.5),)}),
    ),
    "a question about another loss in its place": (
        "same loss", lambda: runs(program={"oracles": (Gradient(Squared(), 1.0),)}),
    ),
    "noise of one's own in program and ledger": (
        OWN,
        lambda: runs(
            program={"mechanism": f.Lying()}, ledger={"mechanism": f.Lying()}, restate=True
        ),
    ),
    "a ledger of one's own": (
        OWN,
        lambda: released(
            f.restated(dataclasses.replace(made(), ledger=f.of_class(f.OwnLedger, made().ledger)))
        ),
    ),
    "a certificate of one's own": (
        OWN,
        lambda: runs(certificate=f.of_class(f.OwnCertificate, made().certificate, epsilon=0.1)),
    ),
    "a program of one's own": (
        OWN,
        lambda: released(
            dataclasses.replace(
                made("summed"), program=f.of_class(f.OwnProgram, made("summed").program)
            )
        ),
    ),
    "a network of one's own": (OWN, lambda: runs(program={"network": f.OwnStar(4)})),
    "public facts of one's own": (OWN, lambda: runs(spec=f.of_class(f.OwnSpec, made().spec))),
    "terms of one's own": (OWN, lambda: runs(terms=f.of_class(f.OwnTerms, made().terms))),
    "a relation of one's own": (OWN, lambda: runs(terms=make_terms(relation=f.OwnRelation()))),
    "a norm that counts for nothing": (
        "record gradients of norm 1e-06",
        lambda: planned(facts=said_of(made().spec, record_norm=f.Slight(1.0), gradient_bound=1e-6)),
    ),
    "a program in single precision": (
        "float64", lambda: runs(program={"template": jnp.zeros(3, jnp.float32)}),
    ),
    "persons in the terms alone": (
        "packed for records", lambda: runs(terms=f.for_persons(1).terms, restate=True),
    ),
    "a smaller norm in the public facts": (
        "record norm", lambda: runs(spec=said_of(made().spec, record_norm=0.5)),
    ),
    "smaller gradients in the public facts": (
        "record gradients", lambda: runs(spec=said_of(made().spec, gradient_bound=0.5)),
    ),
    "records that are said to be dealt": (
        "dealt", lambda: runs(spec=said_of(made().spec, dealt=True), restate=True),
    ),
    "a loss that calls the host": ("jax.numpy alone", lambda: f.loss_of(f.calling)),
    "records under a larger norm": ("norm", lambda: released(made(), f.packed(norm=2.0))),
    "a record at two agents": (
        "used 2 times", lambda: f.packed([np.arange(24), np.arange(23, 48)]),
    ),
    "other counts than were planned": (
        "record counts", lambda: released(made(), make_shards(records=11)),
    ),
    "persons whose places the plan forgets": (
        "packed for persons", lambda: released(made(), f.of_persons()),
    ),
    "persons with more places than the plan has": (
        "1 places", lambda: released(f.for_persons(1), f.of_persons(2)),
    ),
    "persons at more agents than the plan has": (
        "agents", lambda: released(f.for_persons(1), f.of_persons(1, agents=2)),
    ),
}  # fmt: skip
ALL_REFUSED = {
    **{name: (PrivacyError, *row) for name, row in REFUSED.items()},
    **{name: (InputError, *row) for name, row in REFUSED_AS_INPUT.items()},
}


@pytest.mark.parametrize("fault", ALL_REFUSED)
def test_a_fault_outside_the_kernel_is_refused(fault):
    kind, words, plant = ALL_REFUSED[fault]
    with pytest.raises(kind, match=words):
        plant()


@pytest.mark.parametrize("kind", ["plain", "summed", "sampled", "two questions", "claimed"])
def test_the_plans_without_a_fault_are_run(kind):
    one = made(kind)
    assert released(one).certificate == one.certificate == f.restated(one).certificate


@pytest.mark.parametrize("patched", [with_draws(lambda raw: raw), f.asks(lambda ask: ask)])
def test_a_runtime_without_a_fault_is_run(patched):
    assert patched().certificate.epsilon <= 1


# what is planted, and a measurement that holds
HARMLESS = {
    # the certificate says so
    "fewer colluders in terms and certificate": lambda: (
        "at most 0 of them"
        in released(edited("summed", terms=make_terms(observer=Sum(0)), restate=True))
        .certificate.trust
    ),
    "a question of somebody's own": lambda: f.conditional(made("claimed")),
    "a set that is wider than its name": f.wider_set,
    "a division that everybody can repeat": f.divided_by_a_seed,
    "ranges that are read off the records": f.read_off_the_records,
    "an encoder that learns from all records": lambda: "may learn from the records" in str(
        check_pipeline(make_pipeline(StandardScaler(), PrivateLogisticRegression()))
    ),
    "a certificate that is stamped a reproduction": lambda: released(
        edited(certificate=made().certificate.stamped())
    ).certificate.reproduction,
    "a condition that nobody needs": lambda: "the moon is round" in released(
        edited(certificate=made().certificate.under(["the moon is round"], conditional=True))
    ).certificate.conditions,
    # nothing follows from it
    **{
        f"a plan with other {name}": f.state_of_questions({name: value})
        for name, value in {
            "rounds": 10**6, "precision": "float32", "multiplier": 1e-9, "schedules": {},
            "network": metropolis(ring(4)),
        }.items()
    },
    "a smaller budget in the terms": f.state_of_questions({"terms": make_terms(0.01)}),
    "oracles of one bound in another order": f.mixed_up,
    "rows in another order": f.in_another_order,
    # methods
    "a method that asks at what it was told": lambda: f.stays_within(
        planned(f.AsksAtItsAnswers(f.LOGISTIC))
    ),
    **{
        f"a method that asks at {value}": lambda x=value: f.stays_within(planned(f.asks_at(x)))
        for value in (np.nan, np.inf, -np.inf, 1e300, 5e-324)
    },
    "a method whose steps are no numbers": lambda: f.stays_within(
        planned(f.WritesNoNumbers(f.LOGISTIC))
    ),
    "a method that keeps what it is told": f.is_told,
    "schedules that were edited": lambda: f.stays_within(
        edited(program={"shared": {k: v * np.nan for k, v in made().program.shared.items()}})
    ),
    # sums
    "a method that asks otherwise once it was looked at": f.asks_otherwise_when_it_runs,
    "a sum that is credited to questions at private states": lambda: f.of_a_sum(
        f.AsksAtItsAnswers(f.LOGISTIC)
    ),
    "a sum that is credited to signs": lambda: f.of_a_sum(f.sends(jnp.sign)),
    "a sum that is credited to rounded messages": lambda: f.of_a_sum(f.sends(jnp.round)),
    "a sum that is credited to old answers": lambda: f.of_a_sum(f.SendsOldAnswers(f.LOGISTIC)),
    # losses
    **{
        f"a loss whose coefficients are {what}": lambda it=fault: f.stays_within(f.loss_of(it))
        for what, fault in {
            "beyond its constant": lambda z, y: 1e6 * (z - y),
            "infinite": lambda z, y: jnp.where(y > 0, jnp.inf, -jnp.inf) + 0 * z,
            "no numbers": lambda z, y: jnp.where(y > 0, jnp.nan, 1.0) + 0 * z,
            "those of all records together": lambda z, y: z - jnp.sum(y),
        }.items()
    },
    "a loss that remembers records": f.remembers,
    "a loss of infinite constant": lambda: f.stays_within(
        planned(problem=f.SQUARED, facts=public_facts(f.SQUARED, f.SHARDS, clip=1.0))
    ),
    # records
    "features that are longer than their norm": f.of_longer_rows,
}  # fmt: skip


# near to another that is quick
NEAR = {
    *(f"a method that asks at {value}" for value in (np.inf, -np.inf, 5e-324)),
    *(f"a sum that is credited to {what}" for what in ("signs", "rounded messages", "old answers")),
    "a loss whose coefficients are infinite", "a loss of infinite constant",
}  # fmt: skip
assert set(HARMLESS) > NEAR


@pytest.mark.parametrize(
    "fault", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in HARMLESS]
)
def test_a_fault_outside_the_kernel_is_harmless(fault):
    assert HARMLESS[fault]()


def test_the_measurements_of_harmless_faults_see_what_they_are_for():
    assert not f.stays_within(made("claimed"))
    one = planned(f.AsksAtItsAnswers(f.LOGISTIC)).program
    assert not f.asks_publicly(one, one.algorithm)


# accounts: what is planted, what refuses it, and how the runs of the account then stand


def with_a_callback(account):
    def fails(rounds):
        raise ValueError("a fault of the caller's")

    released(made(), account=account, report=fails)


def of_another_plan(account):
    released(planned(rounds=2), account=reserve(account, made(), seed=None, what="less"))


def for_less(account):
    one = reserve(account, made(), seed=None, what="all")
    less = dataclasses.replace(one.charge, messages=((),) * 4)
    released(made(), account=dataclasses.replace(one, charge=less))


def used_twice(account):
    one = reserve(account, made(), seed=None, what="once")
    released(made(), account=one)
    released(made(), account=one)


def without_noise(account):
    with_draws(lambda raw: raw._replace(steps=0 * raw.steps))(account=account)


def on_side(side):
    return dataclasses.replace(f.SHARDS, origin=dataclasses.replace(f.SHARDS.origin, side=side))


CHARGED = {
    "a reservation for another plan": (of_another_plan, AccountError, "another run", ["reserved"]),
    "a reservation of a smaller charge": (for_less, AccountError, "another run", ["reserved"]),
    "a reservation that is used twice": (used_twice, AccountError, "used already", ["released"]),
    "a run that fails after its charge": (with_a_callback, Exception, "fault", ["failed"]),
    "records that break their norm": (
        lambda account: released(
            made(), spoiled(features=lambda x: 10 * x), account=account
        ),
        PrivacyError, "norm above", ["failed"],
    ),
    "a program with less noise": (
        lambda account: released(f.less_noise(ledger=False), account=account),
        PrivacyError, "observed", ["failed"],
    ),
    "a runtime without noise": (without_noise, PrivacyError, "law|drawn", ["failed"]),
    "records that were held out": (
        lambda account: released(made(), on_side("held out"), account=account),
        PrivacyError, "would be trained on", [],
    ),
    "a certificate that says less": (
        lambda account: released(forged("epsilon"), account=account),
        PrivacyError, LEDGER, [],
    ),
    "a plan on somebody's word": (
        lambda account: released(made("claimed"), account=account), InputError, "conditional", [],
    ),
    "a run with a seed": (
        lambda account: released(made(), account=account, seed=1), InputError, "seed", [],
    ),
    "more noise in the certificate than in the ledger": (
        lambda account: released(
            edited(certificate=planned(terms=make_terms(0.1)).certificate), account=account
        ),
        PrivacyError, LEDGER, [],
    ),
    "less noise than there is room for": (
        lambda account: released(
            f.less_noise(restate=True), account=account
        ),
        InputError, "lattice", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", CHARGED)
def test_an_account_keeps_its_charge(fault, tmp_path):
    plant, kind, words, statuses = CHARGED[fault]
    account = open_account("one", Guarantee(3.0, 1e-4), AccountTerms(), folder=tmp_path)
    with pytest.raises(kind, match=words):
        plant(account)
    state = account.state()
    assert [one.status for one in state.runs] == statuses
    least = made().certificate.mu ** 2 if statuses else 0.0
    assert state.balance.total.squares >= 0.999 * least


# what goes through


def test_an_evaluation_of_the_records_that_were_trained_on_is_refused():
    """Its certificate would be the larger of two figures that add up."""
    (data, done), (again, _) = (trained(records_of(), evaluate=0.5) for _ in "ab")
    kept, held = data.shards("float64"), data.evaluated()
    asked = evaluation.evaluation_plan(done.proposal, done.plan, done.model)
    released(asked, held, trained_on=kept.origin)
    for shards, trained_on in (
        (kept, kept.origin),
        (kept, None),  # without a comparison
        (again.evaluated(), kept.origin),  # of another division
        (kept, held.origin),  # swapped
    ):
        with pytest.raises(PrivacyError, match=r"one division|different tables"):
            released(asked, shards, trained_on=trained_on)


def test_records_that_were_held_out_are_not_trained_on():
    assert released(made(), on_side("training")).certificate.epsilon <= 1
    with pytest.raises(PrivacyError, match="would be trained on"):
        records_for_door(made(), on_side("held out"))
