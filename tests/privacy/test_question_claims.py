"""Questions of the library and of others: whose claim a bound is, and at which queries it holds."""

import dataclasses
import functools
import math
import sys
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equinox.internal import unvmap_max
from jax.custom_batching import custom_vmap
from tests.attacks.subjects import AskOnce

from conftest import make_shards, make_terms
from taciturn.algorithms import LinearisedADMM, NoisyGradient
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.opening import prepared
from taciturn.kernel.privacy import (
    Gaussian,
    Laplace,
    ReplaceOne,
    SensitivityBound,
    TargetChange,
    Terms,
)
from taciturn.kernel.questions import (
    KINDS,
    AddedNoise,
    Around,
    AtStep,
    Centre,
    CentredGradient,
    ClippedErrors,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Oracle,
    Pair,
    PerturbedStep,
    Point,
    ProjectedStep,
    ProximalStep,
    Question,
    Recentred,
    RegressionLoss,
    Step,
    Tally,
    TargetGradient,
    TargetQuestion,
    bound_of,
)
from taciturn.kernel.questions.claims import coefficients, from_library
from taciturn.kernel.records import pack
from taciturn.problems import (
    L2,
    ClassWeighted,
    ConvexSet,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
    public_facts,
)


def problem_of(loss):
    return Problem(loss, NoRegulariser(), WholeSpace())


PROBLEM = problem_of(Squared())
SMOOTH = Problem(Logistic(), L2(0.1), WholeSpace())
NAME, GRADIENT = f"{__name__}:", "taciturn.kernel.questions.gradient:Gradient"
TARGETS = make_terms(relation=TargetChange(1.0))


class Mean(Oracle):
    """The mean target; its author says how far it moves."""

    says: float = eqx.field(static=True, default=1e-3)

    @property
    def exact_on_machine(self):
        return True

    def exact(self, shard, count, query):
        return jnp.full(3, jnp.sum(shard.targets * shard.mask) / count)

    def bound(self, spec, adjacency, *, norm):
        return SensitivityBound(np.full((spec.agents, 1, 1), self.says), norm, adjacency, "said")


class Beside(Mean):
    """Planted fault: the mean is added after the noise, and the noise stands on nothing."""

    exact_on_machine = True

    def private_part(self, shard, count, query):
        return jnp.zeros(3)

    def public_part(self, shard, query):
        return jnp.full(3, jnp.sum(shard.targets * shard.mask))


class Shared(Mean):
    """Planted fault: three numbers, of which it says that they are one, under one noise."""

    exact_on_machine = True

    def answer_shape(self, model_shape):
        return (1,)


class Mine(Gradient):
    """A subclass that changes nothing."""


class Anew(Gradient):
    """A subclass that computes the answer anew, and says nothing of rounding."""

    def exact(self, shard, count, query):
        return super().exact(shard, count, query)


class Unchecked(Gradient):
    """Planted fault: passes every check."""

    def check(self, *given, **options):
        return None


class Doubled(TargetQuestion):
    """Planted fault: the targets times two, and no word on how far one of them moves the answer."""

    def private_part(self, shard, count, query):
        return 2 * shard.targets * shard.mask


class Silent(Mean):
    """Says nothing of rounding."""

    exact_on_machine = Oracle.exact_on_machine


class OwnLoss(RegressionLoss):
    """Half the square."""

    lipschitz, smoothness = math.inf, 1.0

    def value(self, margins, targets):
        return 0.5 * (margins - targets) ** 2

    def coefficient(self, margins, targets):
        return margins - targets


class OwnNoise(Laplace):
    """Noise of somebody else."""


class OwnRelation(ReplaceOne):
    """A relation of somebody else."""


class OwnTerms(Terms):
    """Terms of somebody else."""


def planned(oracle=None, *, terms=None, problem=PROBLEM, algorithm=None, **how):
    facts = public_facts(problem, make_shards(), clip=1.0)
    method, oracle = algorithm or NoisyGradient(problem), oracle or Gradient(problem.loss, 1.0)
    how = {"rounds": 3, "precision": "float64", **how}
    return plan(facts, method, (oracle,), terms or make_terms(), **how)


def ran(made, **how):
    return run(made, make_shards(), runtime="simulate", **how)


def test_a_part_that_is_added_after_the_noise_is_refused_but_for_targets():
    with pytest.raises(InputError, match="after the noise"):
        planned(Beside())
    made = planned(Beside(), terms=TARGETS)
    assert made.certificate.conditional
    # what is added sees no target, which would be released as it is
    answers = ran(made, keep=frozenset({"answers"})).trace.records.answer
    exact = np.sum(np.asarray(make_shards().stacked.targets), axis=1)
    assert np.max(np.abs(exact)) >= 2
    assert np.max(np.abs(answers)) < 0.5  # noise alone, of scale 0.007


FIELDS = {field.name: getattr(make_terms(), field.name) for field in dataclasses.fields(Terms)}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (Doubled, TypeError, "facts"),
        (Silent, TypeError, "exact_on_machine"),
        (lambda: ran(planned(Shared())), InputError, "share their noise"),
        (lambda: planned(Unchecked(Squared(), 1.0)), InputError, "overrides check"),
        (lambda: planned(mechanism=OwnNoise()), InputError, "no accountant"),
        (lambda: planned(terms=make_terms(relation=OwnRelation())), InputError, "no accountant"),
        (lambda: planned(terms=OwnTerms(**FIELDS)), InputError, "no accountant"),
    ],
)
def test_what_leaves_something_unsaid_or_has_no_accountant_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


LIBRARY = [
    Gradient(Squared(), 1.0),
    MinibatchGradient(Squared(), 1.0, 0.5),
    ProximalStep(SMOOTH, 1.0, 0.5, 1.0),
    TargetGradient(),
    Gradient(ClassWeighted(Logistic(), (1.0, 0.5)), 1.0),
]
CLAIMED = {
    "Mean": Mean(),
    "Mine": Mine(Squared(), 1.0),
    "Anew": Anew(Squared(), 1.0),
    "OwnLoss": ProximalStep(Problem(OwnLoss(), L2(0.1), WholeSpace()), 1.0, 0.5, 1.0),
}


def test_a_question_or_part_that_is_not_the_librarys_is_named():
    assert [oracle.claims() for oracle in LIBRARY] == [()] * len(LIBRARY)
    for name, oracle in CLAIMED.items():
        assert oracle.claims() == (NAME + name,)


def test_a_certificate_on_its_authors_word_is_conditional_and_names_it():
    """Before: a bound a thousand times too small, epsilon 1.0000, taken on trust: none."""
    made = planned(Mean())
    certificate = ran(made).certificate
    assert certificate.conditional
    assert certificate.lines()[0].startswith("Conditional")
    assert f"{NAME}Mean: a claim of its author" in "\n".join(certificate.lines())
    assert f"the author of {NAME}Mean" in certificate.trust
    for hidden in ({"conditions": ()}, {"conditional": False}, {"trust": "none"}):
        silent = dataclasses.replace(made.certificate, **hidden)
        with pytest.raises(PrivacyError, match=r"not follow from its ledger|code is trusted"):
            ran(dataclasses.replace(made, certificate=silent))


def test_what_the_library_states_does_not_hold_for_a_subclass_that_states_nothing():
    made = planned(Anew(Squared(), 1.0))
    with pytest.raises(PrivacyError, match="rounding"):
        ran(made)
    assert ran(made, seed=0).certificate.reproduction
    for oracle in (
        MinibatchGradient(Squared(), 1.0, 0.5),
        CentredGradient(Gradient(Squared(), 1.0), 1.0, 0.5),
        Tally(2),
        ClippedErrors(),
    ):
        kind, inside = type(oracle), {"__module__": __name__}
        silent = type(kind)("Silent", (kind,), inside)
        stating = type(kind)("Stating", (kind,), {**inside, "exact_on_machine": True})
        fields = {one.name: getattr(oracle, one.name) for one in dataclasses.fields(oracle)}
        assert oracle.holds_on_machine()
        assert not silent(**fields).holds_on_machine()
        assert stating(**fields).holds_on_machine()
        assert stating(**fields).claims() == (f"{NAME}Stating",)


def test_the_list_of_the_librarys_questions_is_closed():
    assert all(from_library(kind) for kind in KINDS)
    rooms = [sys.modules[kind.__module__] for kind in KINDS]
    found = {
        kind
        for room in rooms
        for kind in vars(room).values()
        if isinstance(kind, type) and issubclass(kind, Question) and not kind.__abstractmethods__
    }
    assert found == set(KINDS)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_noise_is_scaled_by_what_the_certificate_states(norm):
    spec, adjacency = public_facts(PROBLEM, make_shards(), clip=1.0), TARGETS.adjacency
    for oracle in LIBRARY:
        stated = bound_of(oracle.stated(spec), spec, adjacency, norm, oracle.sampling)
        bound = oracle.bound(spec, adjacency, norm=norm)
        np.testing.assert_array_equal(stated.value, bound.value)
        assert stated.derivation == bound.derivation
    with pytest.raises(InputError, match="define `bound`"):
        bound_of(Mean().stated(spec), spec, adjacency, norm)


# losses of somebody else

ANY_LOSS = {
    "gradient": lambda loss: Gradient(loss, 1.0),
    "batch": lambda loss: MinibatchGradient(loss, 1.0, 0.5),
    "fixed batch": lambda loss: MinibatchGradient(loss, 1.0, 0.5, records=12),
    "around a centre": lambda loss: Recentred(Gradient(loss, 1.0), 1.0, 0.5),
    "centred gradient": lambda loss: CentredGradient(Gradient(loss, 1.0), 1.0, 0.5),
    "difference": lambda loss: MinibatchDifference(loss, 1.0, 0.5, spread=1.0),
    "projected step": lambda loss: ProjectedStep(problem_of(loss), 1.0),
}


def loss_of(coefficient, **fields):
    """A loss with that coefficient."""
    fields["coefficient"] = lambda self, margins, targets: coefficient(margins, targets)
    return type("Faulty", (OwnLoss,), fields)()


def calls(margins, targets):
    kind = jax.ShapeDtypeStruct(margins.shape, margins.dtype)
    return jax.pure_callback(lambda z: z, kind, margins, vmap_method="expand_dims")


def prints(margins, targets):
    jax.debug.print("{}", targets)
    return margins - targets


def by_lane(margins, targets):
    together = custom_vmap(lambda y: y)
    together.def_vmap(lambda size, mapped, y: (jnp.broadcast_to(jnp.sum(y), y.shape), True))
    return margins - together(targets)


# what sees all records, or lets somebody else see one
FAULTS = {
    "a host function": calls,
    "print": prints,
    "a map over records of its own": by_lane,
    "a host function in a loop":
        lambda z, y: jax.lax.fori_loop(0, 2, lambda _, one: calls(one, y), z),
    "an operation of its own": lambda z, y: z - unvmap_max(y),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        *((fault, "gradient") for fault in FAULTS),
        *(("a host function", name) for name in ("batch", "difference", "projected step")),
    ],
)
def test_a_loss_that_does_more_than_arithmetic_is_refused_before_a_record_is_read(fault, name):
    loss = loss_of(FAULTS[fault])
    problem, terms = problem_of(loss), make_terms(math.inf)  # no noise need be calibrated
    algorithm = {
        "difference": AskOnce(problem, Pair(jnp.zeros(3), jnp.zeros(3)), (3,)),
        "projected step": LinearisedADMM(problem, arm="output"),
    }.get(name)
    with pytest.raises(InputError, match="depend on other records"):
        planned(ANY_LOSS[name](loss), problem=problem, algorithm=algorithm, terms=terms)


@pytest.mark.parametrize("name", ANY_LOSS)
def test_what_is_not_finite_counts_as_zero_for_that_record_alone(name):
    question = ANY_LOSS[name](loss_of(lambda z, y: jnp.where(y > 0, jnp.nan, z - y)))
    zero = jnp.zeros(3)
    assert question.claims() == ()  # the question enforces what its bound needs of a loss
    query = {
        "difference": Pair(zero, zero + 0.1),
        "projected step": Step(zero, zero, jnp.ones(()), jnp.ones(())),
    }.get(name, Point(zero))
    if "centre" in name:
        query = Around(query, zero)
    answer = question.exact(make_shards().shard(0), jnp.asarray(12.0), query)
    assert np.all(np.isfinite(answer))
    assert np.any(np.asarray(answer) != 0)


class Wavers(OwnLoss):
    """Planted fault: a Lipschitz constant that grows once a plan was made."""

    readings: ClassVar[list[int]] = []

    @property
    def lipschitz(self):
        self.readings.append(1)
        return 1e-3 if len(self.readings) <= 1 else 1e3


class Slight(float):
    """Planted fault: a number that counts for nothing once it is multiplied."""

    def __mul__(self, other):
        return 1e-6

    __rmul__ = __mul__


@pytest.mark.parametrize("name", [name for name in ANY_LOSS if name != "difference"])
def test_a_constant_of_a_loss_is_read_once_and_as_a_plain_number(name):
    Wavers.readings.clear()
    oracle, spec = ANY_LOSS[name](Wavers()), public_facts(PROBLEM, make_shards(), clip=1.0)
    facts = oracle.facts(spec)
    gradient = getattr(oracle, "gradient", getattr(oracle, "inner", oracle))
    assert gradient.loss.lipschitz == 1e3
    assert facts["coefficient"] == gradient.coefficient_bound == 1e-3
    facts = ANY_LOSS[name](type("Of", (OwnLoss,), {"lipschitz": Slight(0.5)})()).facts(spec)
    assert facts["row"] * facts["coefficient"] >= 0.5


class Remembers(OwnLoss):
    """Planted fault: once it has seen all targets, they are in what it computes."""

    seen: ClassVar[list[float]] = []

    def check_targets(self, targets):
        self.seen.append(float(np.sum(targets)))

    def coefficient(self, margins, targets):
        return jnp.full_like(margins, sum(self.seen))


def test_a_loss_of_somebody_else_sees_no_target_but_in_what_is_traced():
    made = planned(problem=problem_of(Remembers()))
    ran(made)
    assert Remembers.seen == []
    (condition,) = made.certificate.conditions  # it could look elsewhere in the same process
    assert condition.startswith(f"{NAME}Remembers runs in the process")
    assert made.certificate.conditional


class SetAndLoss(ConvexSet, OwnLoss):
    """Planted fault: a set whose projection expands, and which is called a loss besides."""

    def project(self, x):
        return 1e3 * x

    def _project_in(self, x, metric):
        return 1e3 * x

    def prox_l1(self, v, threshold):
        return 1e3 * v

    def contains(self, x, tol):
        return jnp.asarray(True)


def test_only_what_stands_in_place_of_a_loss_is_left_out_of_the_claims():
    both = SetAndLoss()
    assert Gradient(both, 1.0).claims() == ()
    step = ProjectedStep(Problem(both, NoRegulariser(), both), 1.0)
    assert step.claims() == (f"{NAME}SetAndLoss",)


def test_a_record_has_the_same_coefficient_in_every_slot_of_a_batch():
    """Last bits decide this one: vectorised code could round them by the slot."""
    jumps = loss_of(lambda z, y: jnp.where(jnp.sin(jnp.exp(z) * 2**40) > 0, 1.0, -1.0))
    margins = jnp.asarray(np.random.default_rng(0).standard_normal(203))
    alone = jax.jit(partial(coefficients, alone=True), static_argnums=(0, 3))
    first = alone(jumps, margins, margins, 1.0)
    for skip in (1, 2, 3):
        later = alone(jumps, margins[skip:], margins[skip:], 1.0)
        np.testing.assert_array_equal(later, first[skip:])


# classes of the library that somebody changed


def smaller(self, spec, adjacency, *, norm):
    """Planted fault: a thousandth of the bound of a gradient."""
    facts = {"kind": "mean", "coefficient": 1e-3 * self.coefficient_bound, "row": spec.record_norm}
    return bound_of(facts, spec, adjacency, norm)


def test_a_class_of_the_library_with_another_method_is_somebody_elses(monkeypatch):
    there = type("There", (Gradient,), {"bound": smaller, "__module__": Gradient.__module__})
    monkeypatch.setattr(sys.modules[Gradient.__module__], "There", there, raising=False)
    assert planned(there(Squared(), 1.0)).certificate.conditional
    assert not planned().certificate.conditional
    monkeypatch.setattr(Gradient, "bound", smaller)
    certificate = planned().certificate
    assert certificate.conditional
    assert GRADIENT in certificate.conditions[0]


@pytest.mark.parametrize(
    "around",
    [
        lambda before, after: functools.wraps(before)(after),
        lambda before, after: jax.jit(functools.wraps(before)(after)),
        lambda before, after: functools.partialmethod(after),
        lambda before, after: functools.cached_property(after),
    ],
    ids=["wrapped", "compiled", "partial", "cached"],
)
def test_a_function_around_a_method_of_the_library_is_somebody_elses(around, monkeypatch):
    exact = Gradient.exact

    def tenfold(self, shard, count, query):
        return 10 * exact(self, shard, count, query)

    monkeypatch.setattr(Gradient, "exact", around(exact, tenfold))
    assert not from_library(Gradient)
    assert Gradient(Squared(), 1.0).claims() == (GRADIENT,)


def test_a_place_of_noise_with_another_method_is_refused_before_and_after_planning(monkeypatch):
    """Planted fault: the answer is released as it is."""
    made = planned()

    def bare(self, exact, shard, count, query, noise):
        return exact(shard, count, query)

    monkeypatch.setattr(AddedNoise, "answer", bare)
    for use in (planned, lambda: ran(made)):
        with pytest.raises(InputError, match="no accountant knows"):
            use()


# a bound holds at every query of its form: another form is another question

D, M, K = 3, 12, 3
LOSS, CLASSES = Logistic(), MultinomialLogistic(K)
PROXIMAL = ProximalStep(SMOOTH, 1.0, 0.5, 1.0)
ONE, NUMBER, MANY = jnp.zeros(D), jnp.ones(()), jnp.zeros((D, M))
ASKED, POINT = Gradient(LOSS, 1.0), Point(ONE)
PROJECTED = ProjectedStep(Problem(LOSS, NoRegulariser(), Simplex(1.0)), 1.0)
DIFFERENCE = Gradient(LOSS, 1.0, spread=2.0**-10)
CENTRED, RECENTRED = CentredGradient(ASKED, 1.0, 0.3), Recentred(ASKED, 1.0, 0.3)
RIGHT = [
    (ASKED, POINT),
    (ASKED, Pair(ONE, ONE)),
    (DIFFERENCE, Pair(ONE, ONE)),
    (Gradient(CLASSES, 1.0), Point(jnp.zeros((D, K)))),
    (PROJECTED, Step(ONE, ONE, NUMBER, NUMBER)),
    (PROXIMAL, Centre(ONE)),
    (PerturbedStep(PROXIMAL), Centre(ONE)),
    (CENTRED, Around(POINT, ONE)),
    (RECENTRED, Around(POINT, ONE)),
    (Tally(2), POINT),
    (Tally(K), Point(jnp.zeros((D, K)))),
    (ClippedErrors(), POINT),
]
WRONG = [
    (MinibatchDifference(LOSS, 1.0, 0.5, spread=0.5), POINT),
    (DIFFERENCE, POINT),  # without an anchor nothing would cut it to the spread
    (DIFFERENCE, Pair(ONE, MANY)),
    (PROJECTED, Step(ONE, ONE, jnp.ones(D), NUMBER)),  # a curvature for each entry expands
    (PROJECTED, Step(ONE, ONE, NUMBER, jnp.ones(D))),
    (PROJECTED, Step(ONE, NUMBER, NUMBER, NUMBER)),
    (Tally(2), Point(MANY)),  # a model for each record counts each M times
    (Tally(K), POINT),
    (ClippedErrors(), Point(MANY)),
    (Gradient(CLASSES, 1.0), Point(MANY)),  # a softmax over records
    *((ASKED, Point(x)) for x in (jnp.zeros((D, 1)), jnp.zeros(D, jnp.int32), POINT)),
    *((ASKED, query) for query in (Centre(ONE), ONE, None, AtStep(jnp.zeros((), jnp.int32)))),
    (PROXIMAL, POINT),
    (PROXIMAL, Centre(jnp.zeros((D, 2)))),
    (CENTRED, Around(POINT, MANY)),
    (CENTRED, Around(Point(MANY), ONE)),
    (CENTRED, POINT),
    (RECENTRED, Around(Centre(ONE), ONE)),
    (RECENTRED, Around(POINT, jnp.zeros(()))),
]


def asked(question, query):
    """What comes of it: the line of an `InputError`, or nothing."""
    targets = np.zeros(M, np.int64) if "Multi" in repr(question) else np.ones(M)
    shards = pack(np.eye(M, D), targets, [np.arange(M)], record_norm=1.0, precision="float64",
                  )  # fmt: skip
    shard, count = jax.tree.map(lambda x: x[0], prepared((question,), Gaussian(), shards))
    try:
        jax.eval_shape(lambda: question.exact(shard, count, query))
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.unchecked
def test_a_question_is_answered_at_queries_of_its_form_and_at_no_others():
    assert [asked(*pair) for pair in RIGHT] == [""] * len(RIGHT)
    for pair in WRONG:
        assert asked(*pair).startswith("this question is asked with"), pair


def test_a_step_around_a_centre_is_built_for_the_rows_there():
    """Before: built for shorter rows, its iteration expands, 25 times the bound."""
    with pytest.raises(InputError, match=r"assumes rows of norm 0\.03"):
        Recentred(ProximalStep(SMOOTH, 1.0, 0.01, 0.03), 1.0, 0.3)
    Recentred(ProximalStep(SMOOTH, 1.0, 0.01, 1.1), 1.0, 0.3)
