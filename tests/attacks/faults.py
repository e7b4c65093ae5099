"""Faults outside the kernel, and measurements of what is released in spite of them."""

import dataclasses
from functools import cache
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms
from taciturn.algorithms import LinearisedADMM, NoisyGradient
from taciturn.audit import replace_record
from taciturn.audit.recorded import replay
from taciturn.engine import network, planning, records_for_door, run, running, runtimes
from taciturn.engine.planning import plan, trusted_code
from taciturn.engine.program import Program, agent_turns
from taciturn.errors import PublicFactsWarning
from taciturn.estimators import PrivateLogisticRegression
from taciturn.kernel.door import Supply, at
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import (
    Adjacency,
    Certificate,
    Gaussian,
    Ledger,
    ReplaceOne,
    Sum,
    Terms,
    ZeroOut,
    compose,
)
from taciturn.kernel.questions import (
    Gradient,
    MinibatchGradient,
    ProjectedStep,
    RegressionLoss,
    Squared,
)
from taciturn.kernel.records import (
    Persons,
    Spec,
    check_held_out,
    check_origins,
    hold_out,
    pack,
    random_partition,
)
from taciturn.problems import Ball, Logistic, NoRegulariser, Problem, WholeSpace, public_facts

LOGISTIC, SQUARED = (
    Problem(loss, NoRegulariser(), WholeSpace()) for loss in (Logistic(), Squared())
)
SHARDS, ROUNDS = make_shards(), 6
OTHER = replace_record(SHARDS, 1, 2, np.array([0.0, -1.0, 0.0]), 1.0)
THOROUGH = 1e-3  # of the noise, or of a bound, that a forger leaves
NEARER = Adjacency(ZeroOut(), "record")
DRAWN = "law and the scale|other noise than was drawn"


def planned(algorithm=None, oracle=None, *, observer=None, problem=LOGISTIC, **how):
    """A plan of the noisy gradient, or of another method or question."""
    oracles = oracle if isinstance(oracle, tuple) else (oracle or Gradient(problem.loss, 1.0),)
    how = {"terms": make_terms(observer=observer), "rounds": ROUNDS, **how}
    facts = how.pop("facts", None) or public_facts(problem, SHARDS, clip=1.0)
    method = algorithm or NoisyGradient(problem)
    return plan(facts, method, oracles, precision="float64", **how)


class Alternates(NoisyGradient):
    """Asks two questions in turn."""

    def questions(self, rounds):
        return np.arange(rounds)[:, None] % 2


@cache
def made(kind="plain"):
    """The plan that faults are planted in, without one."""
    if kind == "summed":
        return planned(observer=Sum(1))
    if kind == "sampled":
        # the multiplier that calibration finds in seconds, and a little more
        return planned(oracle=MinibatchGradient(Logistic(), 1.0, 0.5), multiplier=4.57)
    if kind == "two questions":
        both = (Gradient(Logistic(), 1.0), Gradient(Logistic(), 1.0, relative_multiplier=2.0))
        return planned(Alternates(LOGISTIC), both)
    if kind == "claimed":
        return planned(oracle=Tenfold(Logistic(), 1.0))
    return planned()


def released(plan, shards=SHARDS, **how):
    return run(plan, shards, runtime="simulate", **how)


def edited(kind="plain", *, ledger=None, program=None, restate=False, **fields):
    """An edited plan; with `restate` its certificate is computed again, by whoever edited it."""
    one = made(kind)
    changed = dataclasses.replace(
        one,
        ledger=dataclasses.replace(one.ledger, **(ledger or {})),
        program=dataclasses.replace(one.program, **(program or {})),
        **fields,
    )
    return restated(changed) if restate else changed


def restated(plan):
    trusted = trusted_code(plan.program)
    certificate = compose((plan.leg,), plan.terms).certificate()
    stated = certificate.under(trusted, conditional=bool(trusted))
    return dataclasses.replace(plan, certificate=stated)


def less_noise(*, ledger=True, program=True, **how):
    scales = made().ledger.scale, made().program.scales
    return edited(
        ledger={"scale": scales[0] * THOROUGH} if ledger else None,
        program={"scales": scales[1] * THOROUGH} if program else None,
        **how,
    )


def other_lattice(exponents, *, ledger=True, program=True, **how):
    own = made()
    return edited(
        ledger={"step": np.ldexp(own.ledger.step, exponents)} if ledger else None,
        program={"exponents": own.program.exponents + exponents} if program else None,
        **how,
    )


def smaller_bound(factor=1.0, *, question=None, near=None, **named):
    """A bound of less than is asked, in bounds, ledger and certificate alike."""
    own = made()
    question, near = question or own.program.oracles[0], near or own.terms.adjacency
    bound = question.bound(own.spec, near, norm="l2")
    bound = dataclasses.replace(bound, value=bound.value * factor, **named)
    sensitivity = np.broadcast_to(bound.value, own.ledger.kind.shape)
    assert np.all(sensitivity < own.ledger.sensitivity)
    return edited(bounds=(bound,), ledger={"sensitivity": sensitivity}, restate=True)


def repeated(axis):
    """The program with all of its rounds twice, or all of their questions."""
    leaves = ("questions", "scales", "exponents", *(("shared",) if axis == 0 else ()))

    def twice(leaf):
        return jnp.concatenate([leaf, leaf], axis)

    changed = {name: jax.tree.map(twice, getattr(made().program, name)) for name in leaves}
    return dataclasses.replace(made().program, **changed)


def backwards(name):
    return getattr(made("two questions").program, name)[::-1]


def larger_batches():
    return (MinibatchGradient(Logistic(), 1.0, 0.6),)


def unconditional(certificate):
    return dataclasses.replace(certificate, conditions=(), conditional=False)


# laws, classes and questions of somebody's own


class Lying(Gaussian):
    """Noise that is never drawn, and that says of itself that it was."""

    def integers(self, stream, labels, count, scale):
        return np.zeros((len(labels), count), np.int64)

    def size(self, noise):
        return jnp.asarray(3 * float(made().ledger.scale.flat[0]) ** 2)


class Tenfold(Gradient):
    """A question whose answers move ten times as far as its bound says."""

    exact_on_machine = True

    def exact(self, shard, count, query):
        return 10 * super().exact(shard, count, query)


class OwnProgram(Program):
    """A program whose agents send what their method sends, where whole steps are certified."""

    @property
    def executed(self):
        return self.algorithm


class OwnLedger(Ledger):
    """A ledger that tells an accountant a thousandth."""

    def mu_per_agent(self, observer):
        return THOROUGH * super().mu_per_agent(observer)


class OwnCertificate(Certificate):
    """A certificate that is equal to any other."""

    def __eq__(self, other):
        return True

    __hash__ = None


class Slight(float):
    """A number that counts for nothing once it is multiplied."""

    def __mul__(self, other):
        return 1e-6

    __rmul__ = __mul__


# the same in every respect, and yet of somebody else: a network in which an agent hears nothing of
# others and sends what it likes, public facts, terms, and a relation
OwnStar, OwnSpec, OwnTerms, OwnRelation = (
    type(f"Own{kind.__name__}", (kind,), {}) for kind in (network.Star, Spec, Terms, ReplaceOne)
)


def of_class(kind, value, **changed):
    names = [field.name for field in dataclasses.fields(value) if field.init]
    return kind(**{name: getattr(value, name) for name in names} | changed)


# methods


class AsksAtItsAnswers(NoisyGradient):
    """Asks at what it was told last: a function of noised answers, but no public one."""

    def ask(self, state, inbox, turn):
        return super().ask(state, inbox, turn)._replace(x=state)


class AsksOtherwiseLater(AsksAtItsAnswers):
    """Asks at public points while it is looked at, and at its own answers when it is run."""

    looked_at: ClassVar[list[int]] = []

    def ask(self, state, inbox, turn):
        self.looked_at.append(0)
        kind = NoisyGradient if len(self.looked_at) <= 3 else AsksAtItsAnswers
        return kind.ask(self, state, inbox, turn)


def asks_at(value):
    class AsksAt(NoisyGradient):
        def ask(self, state, inbox, turn):
            query = super().ask(state, inbox, turn)
            return query._replace(x=jnp.full_like(query.x, value))

    return AsksAt(LOGISTIC)


class KeepsWhatItIsTold(NoisyGradient):
    """Leaves every answer with the host."""

    told: ClassVar[list[np.ndarray]] = []

    def tell(self, state, inbox, turn, answer):
        jax.debug.callback(lambda value: self.told.append(np.asarray(value)), answer)
        return super().tell(state, inbox, turn, answer)


class SendsOldAnswers(NoisyGradient):
    """The message holds what was answered before, too."""

    def tell(self, state, inbox, turn, answer):
        return answer + 0.1 * state


class WritesNoNumbers(NoisyGradient):
    """Its step sizes are no numbers."""

    def schedule(self, spec, rounds, noise):
        own = super().schedule(spec, rounds, noise)
        return {name: np.full_like(value, np.nan) for name, value in own.items()}


def sends(change):
    class Sends(NoisyGradient):
        def send(self, state, inbox, turn):
            return state, change(state)

    return Sends(LOGISTIC)


# losses


class OwnLoss(RegressionLoss):
    """Half the square, of which it is said that no coefficient is above 0.1."""

    lipschitz = 0.1
    smoothness = 1.0

    def value(self, margins, targets):
        return 0.5 * (margins - targets) ** 2

    def coefficient(self, margins, targets):
        return self.fault(margins, targets)


def loss_of(fault):
    """A method for a loss with that coefficient, and its plan."""
    loss = type("Faulty", (OwnLoss,), {"fault": lambda self, *given: fault(*given)})()
    problem = Problem(loss, NoRegulariser(), WholeSpace())
    return planned(problem=problem, facts=public_facts(problem, SHARDS, clip=1.0))


SEEN = []


def remembering(margins, targets):
    SEEN.append(targets)
    return jnp.full_like(margins, sum(jnp.sum(one) for one in SEEN[-1:]))


def calling(margins, targets):
    kind = jax.ShapeDtypeStruct(margins.shape, margins.dtype)
    return jax.pure_callback(np.asarray, kind, margins - targets)


# records


def spoiled(**leaves):
    data = {name: change(getattr(SHARDS.stacked, name)) for name, change in leaves.items()}
    return dataclasses.replace(SHARDS, stacked=dataclasses.replace(SHARDS.stacked, **data))


def said_of(value, **otherwise):
    return dataclasses.replace(value, **otherwise)


def rows(agents=4, records=12):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((agents * records, 3))
    return x, np.sign(draw.standard_normal(len(x))), np.arange(len(x))


def packed(parts=None, *, norm=1.0, factor=1.0, order=None, **how):
    x, y, numbers = rows()
    if order is not None:
        x, y = x[order], y[order]
    parts = np.split(numbers, 4) if parts is None else parts
    return pack(factor * x, y, parts, record_norm=norm, precision="float64", **how)


def of_persons(places=2, agents=1):
    """Records of 24 persons with two rows each; with `agents` above 1 both at different ones."""
    numbers = np.repeat(np.arange(24), 2) if agents == 1 else np.tile(np.arange(24), 2)
    return packed(persons=Persons(numbers, places))


def for_persons(places, agents=1):
    adjacency = Adjacency(ReplaceOne(), "person", places, agents)
    return planned(terms=dataclasses.replace(made().terms, adjacency=adjacency))


def divided(share=0.25):
    kept, held = hold_out(random_partition(48, 4), share)
    return [packed(side).origin for side in (kept, held)], (kept, held)


def overlapping():
    (trained_on, held), _ = divided()
    first = np.concatenate([held.rows[0], trained_on.rows[0][:1]])
    check_origins(trained_on, dataclasses.replace(held, rows=(first, *held.rows[1:])))


def of_another_table():
    check_origins(divided()[0][0], divided()[0][1])


def held_out_twice():
    _, (kept, held) = divided()
    check_held_out(kept, [*held[:3], kept[3][:1]])


# runtimes and supplies


def supply(stream=None):
    return Supply(made().program.agenda, stream or Stream.fresh(), 12)


def supply_twice():
    stream = Stream.fresh()
    supply(stream)
    supply(stream)


def block_twice():
    one = supply()
    one.block(0, 2)
    one.block(1, 3)


class Patched:
    """A module outside the kernel with another function, while a plan of its own shape is run."""

    rounds = 10

    def __init__(self, module, name, around):
        self.module, self.name, self.around = module, name, around

    def __call__(self, **how):
        with pytest.MonkeyPatch.context() as patch:
            jax.clear_caches()  # or a program would be found that was traced before
            patch.setattr(self.module, self.name, self.around(getattr(self.module, self.name)))
            try:
                Patched.rounds += 1
                return released(planned(rounds=Patched.rounds), **how)
            finally:
                jax.clear_caches()


def with_draws(change):
    """A runtime that hands on other random numbers than it was given."""

    def around(rounds):
        def changed(program, door, carry, turns, raw, **how):
            return rounds(program, door, carry, turns, change(raw), **how)

        return jax.jit(changed, static_argnames=("keep", "report"))

    return Patched(runtimes, "_rounds", lambda _: around(runtimes.rounds))


def of_the_first(raw):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), raw)


def of_one_agent(raw):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:, :1], leaf.shape), raw)


def asks(around):
    """A round whose agents ask in another way."""

    def wrapped(agents_round):
        def changed(algorithm, ask, *given, **how):
            return agents_round(algorithm, around(ask), *given, **how)

        return changed

    return Patched(network, "agents_round", wrapped)


def forgets(ask):
    def changed(queries, turn):
        answers, records = ask(queries, turn)
        return answers, records._replace(kind=jnp.where(turn.round[0] == 2, -1, records.kind))

    return changed


def twice(ask):
    """The planted fault: the second answer has the noise of the first, and one record is kept."""

    def changed(queries, turn):
        first, _ = ask(jax.tree.map(lambda x: x + 1, queries), turn)
        second, records = ask(queries, turn)
        return second - first, records

    return changed


# legs


def legs(**changed):
    own = made().leg
    return compose((own, dataclasses.replace(own, **changed)), made().terms)


def at_agents():
    terms = dataclasses.replace(made().terms, adjacency=Adjacency(ReplaceOne(), "agent"))
    leg = planned(terms=terms).leg
    return compose((leg, dataclasses.replace(leg, part="held out")), terms)


# measurements of what is released


def stays_within(plan, shards=SHARDS, other=OTHER):
    """A neighbour moves no answer of a run beyond its bound, and the noise has its scale."""
    done = released(plan, shards, keep=frozenset({"answers", "messages"}))
    behind = (records_for_door(plan, side) for side in (shards, other))
    seen = replay(plan, plan.program.oracles, done.trace, *behind)
    assert np.all(np.isfinite(seen.exact))
    residual = (np.asarray(done.trace.records.answer) - seen.exact) / plan.ledger.scale.flat[0]
    assert 0.5 < np.sqrt(np.mean(residual**2)) < 1.6  # 72 numbers
    assert done.certificate == plan.certificate
    assert seen.messages_hold
    return seen.bounds_hold


def same_as_planned(plan, shards=SHARDS):
    """The run is that of the plan without a fault, and so is its certificate."""
    assert released(plan, shards).certificate == made().certificate
    mine, its = (released(*one, seed=3).model for one in ((plan, shards), (made(), SHARDS)))
    return np.array_equal(mine, its)


def conditional(plan):
    """The certificate names whose word it rests on."""
    said = released(plan).certificate
    return said.conditional and "claim" in " ".join(said.conditions)


def asks_publicly(program, method):
    """What an agent asks is the same whatever it was told; and it sends whole steps."""
    turn = at(jax.tree.map(lambda leaf: leaf[0, :, 0], agent_turns(program)), 0)
    inbox = program.network.first_inboxes(method, program.template)

    def asked(answer):
        state = method.tell(method.start(program.template), inbox, turn, jnp.full(3, answer))
        return method.ask(method.receive(state, inbox, turn), inbox, turn)

    return eqx.tree_equal(asked(0.0), asked(1e3))


def of_a_sum(method):
    """A method's run under a certificate of sums, which it has not earned."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (planning, running):
            patch.setattr(module, "credits_summation", lambda program: True)
        plan = planned(method, observer=Sum(1))
        done = released(plan, keep=frozenset({"messages"}))
    assert done.certificate.epsilon <= 1
    assert np.issubdtype(done.trace.messages.dtype, np.integer)
    return asks_publicly(plan.program, plan.program.executed)


def asks_otherwise_when_it_runs():
    AsksOtherwiseLater.looked_at.clear()
    plan = planned(AsksOtherwiseLater(LOGISTIC), observer=Sum(1))
    assert plan.program.summed
    released(plan)
    assert len(AsksOtherwiseLater.looked_at) > 3
    return asks_publicly(plan.program, plan.program.executed)


def remembers():
    plan = loss_of(remembering)
    held = stays_within(plan)
    return held and all(np.size(one) == 1 for one in SEEN)  # a single record, as a symbol


def is_told():
    KeepsWhatItIsTold.told.clear()
    held = stays_within(planned(KeepsWhatItIsTold(LOGISTIC)))
    return held and len(KeepsWhatItIsTold.told) >= ROUNDS  # noised answers alone


def wider_set():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ball, "project", lambda self, point: 1e3 * point)
        return bool(step_onto_ball().certificate.conditional)


def step_onto_ball():
    problem = Problem(Logistic(), NoRegulariser(), Ball(1.0))
    method = LinearisedADMM(problem, arm="output")
    return planned(method, ProjectedStep(problem, 1.0), problem=problem)


def in_another_order():
    order = np.concatenate([12 * k + np.random.default_rng(k).permutation(12) for k in range(4)])
    shards = packed(order=order)
    assert not np.array_equal(shards.stacked.features, SHARDS.stacked.features)
    return same_as_planned(made(), shards)


def read_off_the_records():
    x, y, _ = rows(records=100)
    model = PrivateLogisticRegression(epsilon=5, delta=1e-5, rounds=2, classes=[-1, 1])
    with pytest.warns(PublicFactsWarning):
        model.fit(x, y)
    return model.certificate_.conditional


def of_longer_rows():
    long = packed(factor=1e3)
    other = replace_record(long, 0, 0, np.array([0.0, 0.0, 1.0]), 1.0)
    return stays_within(made(), long, other)


def divided_by_a_seed():
    parts = random_partition(48, 4, seed=0)
    shards = packed(parts)
    facts = public_facts(LOGISTIC, shards, clip=1.0)
    return released(planned(facts=facts), shards).certificate.reproduction


def mixed_up(*programs):
    """Whether an edited program's run has the ledger that its plan has."""
    plan = edited("two questions", program={"oracles": made("two questions").program.oracles[::-1]})
    return released(plan).ledger == plan.ledger


def state_of_questions(fields):
    return lambda: same_as_planned(edited(**fields))
