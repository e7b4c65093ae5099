"""Of a question that is not the library's, a certificate says whose claim the bound is."""

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
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Gaussian,
    Laplace,
    Ledger,
    ReplaceOne,
    SensitivityBound,
    TargetChange,
    Terms,
    compose,
)
from taciturn.kernel.questions import (
    KINDS,
    AddedNoise,
    Around,
    CentredGradient,
    ClippedErrors,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Oracle,
    Pair,
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
from taciturn.problems import (
    L2,
    ClassWeighted,
    ConvexSet,
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    public_facts,
)

PROBLEM = Problem(Squared(), NoRegulariser(), WholeSpace())
NAME = f"{__name__}:"


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

    @property
    def exact_on_machine(self):
        return True

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


class OwnLoss(RegressionLoss):
    """Half the square, but for a planted fault: records see each other."""

    together: bool = eqx.field(static=True, default=False)

    @property
    def lipschitz(self):
        return math.inf

    @property
    def smoothness(self):
        return 1.0

    def value(self, margins, targets):
        return 0.5 * (margins - targets) ** 2

    def coefficient(self, margins, targets):
        return margins - (jnp.sum(targets) if self.together else targets)


class OwnNoise(Laplace):
    """Noise of one's own."""


def planned(oracle, *, terms=None, problem=PROBLEM, **how):
    return plan(
        public_facts(problem, make_shards(), clip=1.0),
        NoisyGradient(problem),
        (oracle,),
        terms or make_terms(),
        rounds=3,
        precision="float64",
        **how,
    )


def test_a_part_that_is_added_after_the_noise_is_refused_but_for_targets():
    with pytest.raises(InputError, match="after the noise"):
        planned(Beside())
    assert planned(Beside(), terms=make_terms(relation=TargetChange(1.0))).certificate.conditional


def test_what_is_added_after_the_noise_sees_no_target():
    """Without that, the targets themselves would be released under a certificate."""
    made = planned(Beside(), terms=make_terms(relation=TargetChange(1.0)))
    shards = make_shards()
    answers = run(made, shards, runtime="simulate", keep=frozenset({"answers"})).trace.records
    exact = np.sum(np.asarray(shards.stacked.targets), axis=1)
    assert np.max(np.abs(exact)) >= 2
    assert np.max(np.abs(answers.answer)) < 0.5  # noise alone, of scale 0.007


class Doubled(TargetQuestion):
    """Planted fault: the targets times two, and no word on how far one of them moves the answer."""

    def private_part(self, shard, count, query):
        return 2 * shard.targets * shard.mask


def test_a_question_about_targets_says_how_far_one_of_them_moves_its_answer():
    with pytest.raises(TypeError, match="facts"):
        Doubled()


def test_three_numbers_under_one_noise_are_refused():
    with pytest.raises(InputError, match="share their noise"):
        run(planned(Shared()), make_shards(), runtime="simulate")


def test_a_question_that_overrides_its_own_checks_is_refused():
    with pytest.raises(InputError, match=r"overrides .*check"):
        planned(Unchecked(PROBLEM.loss, 1.0))


def test_noise_of_ones_own_is_refused():
    with pytest.raises(InputError, match="no accountant"):
        planned(Gradient(PROBLEM.loss, 1.0), mechanism=OwnNoise())


@pytest.mark.parametrize("epsilon", [50.5, 1e3])
def test_poisson_batches_beyond_epsilon_50_are_refused(epsilon):
    with pytest.raises(InputError, match="up to epsilon 50"):
        planned(MinibatchGradient(PROBLEM.loss, 1.0, 0.5), terms=make_terms(epsilon))
    assert planned(MinibatchGradient(PROBLEM.loss, 1.0, 0.5), terms=make_terms(math.inf))


LIBRARY = [
    Gradient(Squared(), 1.0),
    MinibatchGradient(Squared(), 1.0, 0.5),
    ProximalStep(Problem(Logistic(), L2(0.1), WholeSpace()), 1.0, 0.5, 1.0),
    TargetGradient(),
    Gradient(ClassWeighted(Logistic(), (1.0, 0.5)), 1.0),
]
CLAIMED = [
    (Mean(), "Mean"),
    (Mine(Squared(), 1.0), "Mine"),
    (Anew(Squared(), 1.0), "Anew"),
    (ProximalStep(Problem(OwnLoss(), L2(0.1), WholeSpace()), 1.0, 0.5, 1.0), "OwnLoss"),
]


@pytest.mark.parametrize("oracle", LIBRARY, ids=lambda oracle: type(oracle).__name__)
def test_questions_of_the_library_rest_on_nobodys_word(oracle):
    assert oracle.claims() == ()


@pytest.mark.parametrize(("oracle", "name"), CLAIMED, ids=lambda value: str(value)[:9])
def test_a_question_or_part_that_is_not_the_librarys_is_named(oracle, name):
    assert oracle.claims() == (NAME + name,)


def test_a_certificate_on_its_authors_word_is_conditional_and_names_it():
    """Before: a bound a thousand times too small, epsilon 1.0000, taken on trust: none."""
    made = planned(Mean())
    certificate = run(made, make_shards(), runtime="simulate").certificate
    assert certificate.conditional
    text = "\n".join(certificate.lines())
    assert certificate.lines()[0].startswith("Conditional")
    assert f"{NAME}Mean: a claim of its author" in text
    assert f"the author of {NAME}Mean" in certificate.trust


def test_a_plan_whose_certificate_hides_the_claim_is_refused():
    made = planned(Mean())
    for hidden in ({"conditions": ()}, {"conditional": False}, {"trust": "none"}):
        certificate = dataclasses.replace(made.certificate, **hidden)
        with pytest.raises(PrivacyError, match=r"ledger amounts to|code is trusted"):
            run(dataclasses.replace(made, certificate=certificate), make_shards(),
                runtime="simulate")  # fmt: skip


def test_no_account_is_charged_on_an_authors_word(tmp_path):
    account = open_account("one", Guarantee(3.0, 1e-4), AccountTerms(), folder=tmp_path)
    with pytest.raises(InputError, match="author"):
        run(planned(Mean()), make_shards(), runtime="simulate", account=account)
    assert account.state().charged == ()


def test_an_oracle_states_whether_it_is_exact_on_the_machine():
    class Silent(Mean):
        exact_on_machine = Oracle.exact_on_machine

    with pytest.raises(TypeError, match="exact_on_machine"):
        Silent()


def test_what_the_library_states_does_not_hold_for_a_subclass_that_states_nothing():
    assert not Mine(Squared(), 1.0).holds_on_machine()
    assert not Anew(Squared(), 1.0).holds_on_machine()
    made = planned(Anew(Squared(), 1.0))
    with pytest.raises(PrivacyError, match="rounding"):
        run(made, make_shards(), runtime="simulate")
    assert run(made, make_shards(), runtime="simulate", seed=0).certificate.reproduction


@pytest.mark.parametrize(
    "oracle",
    [
        MinibatchGradient(Squared(), 1.0, 0.5),
        CentredGradient(Gradient(Squared(), 1.0), 1.0, 0.5),
        Tally(2),
        ClippedErrors(),
    ],
    ids=lambda oracle: type(oracle).__name__,
)
def test_a_subclass_states_itself_whether_it_is_exact_and_is_somebody_elses_all_the_same(oracle):
    kind, inside = type(oracle), {"__module__": __name__}
    silent = type(kind)("Silent", (kind,), inside)
    stating = type(kind)("Stating", (kind,), {**inside, "exact_on_machine": True})
    fields = {one.name: getattr(oracle, one.name) for one in dataclasses.fields(oracle)}
    assert oracle.holds_on_machine()
    assert not silent(**fields).holds_on_machine()
    assert stating(**fields).holds_on_machine()
    assert stating(**fields).claims() == (f"{__name__}:Stating",)


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
    assert Mine not in KINDS


@pytest.mark.parametrize("oracle", LIBRARY, ids=lambda oracle: type(oracle).__name__)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_noise_is_scaled_by_what_the_certificate_states(oracle, norm):
    spec = public_facts(PROBLEM, make_shards(), clip=1.0)
    adjacency = make_terms(relation=TargetChange(1.0)).adjacency
    stated = bound_of(oracle.stated(spec), spec, adjacency, norm, oracle.sampling)
    bound = oracle.bound(spec, adjacency, norm=norm)
    np.testing.assert_array_equal(stated.value, bound.value)
    assert stated.derivation == bound.derivation


def test_facts_of_somebody_elses_question_have_no_bound_here():
    spec = public_facts(PROBLEM, make_shards(), clip=1.0)
    with pytest.raises(InputError, match="define `bound`"):
        bound_of(Mean().stated(spec), spec, make_terms().adjacency, "l2")


ANY_LOSS = {
    "gradient": lambda loss: Gradient(loss, 1.0),
    "batch": lambda loss: MinibatchGradient(loss, 1.0, 0.5),
    "fixed batch": lambda loss: MinibatchGradient(loss, 1.0, 0.5, records=12),
    "around a centre": lambda loss: Recentred(Gradient(loss, 1.0), 1.0, 0.5),
    "centred gradient": lambda loss: CentredGradient(Gradient(loss, 1.0), 1.0, 0.5),
    "difference": lambda loss: MinibatchDifference(loss, 1.0, 0.5, spread=1.0),
    "projected step": lambda loss: ProjectedStep(problem_of(loss), 1.0),
}


def problem_of(loss):
    return Problem(loss, NoRegulariser(), WholeSpace())


@pytest.mark.parametrize("name", ANY_LOSS)
def test_a_loss_may_be_anybodys_code_where_the_question_enforces_what_its_bound_needs(name):
    assert ANY_LOSS[name](OwnLoss()).claims() == ()


class Calls(OwnLoss):
    """Planted fault: a host function sees every record, and may remember them."""

    def coefficient(self, margins, targets):
        seen = jax.ShapeDtypeStruct(margins.shape, margins.dtype)
        return jax.pure_callback(lambda z: z, seen, margins, vmap_method="expand_dims")


class Prints(OwnLoss):
    """Planted fault: tells of a record."""

    def coefficient(self, margins, targets):
        jax.debug.print("{}", targets)
        return margins - targets


class ByLane(OwnLoss):
    """Planted fault: how it is mapped over records is its own business."""

    def coefficient(self, margins, targets):
        together = custom_vmap(lambda y: y)
        together.def_vmap(lambda size, mapped, y: (jnp.broadcast_to(jnp.sum(y), y.shape), True))
        return margins - together(targets)


class Loops(OwnLoss):
    """Planted fault: the call to the host stands in a loop."""

    def coefficient(self, margins, targets):
        return jax.lax.fori_loop(0, 2, lambda _, z: Calls().coefficient(z, targets), margins)


class ByOperation(OwnLoss):
    """Planted fault: an operation of somebody's own sees all that it is mapped over."""

    def coefficient(self, margins, targets):
        return margins - unvmap_max(targets)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        *((loss, "gradient") for loss in (Calls(), Prints(), ByLane(), Loops(), ByOperation())),
        *((Calls(), name) for name in ("batch", "difference", "projected step")),
    ],
)
def test_a_loss_that_does_more_than_arithmetic_is_refused_before_a_record_is_read(loss, name):
    if name == "difference":
        algorithm = AskOnce(problem_of(loss), Pair(jnp.zeros(3), jnp.zeros(3)), (3,))
    elif name == "projected step":
        algorithm = LinearisedADMM(problem_of(loss), arm="output")
    else:
        algorithm = NoisyGradient(problem_of(loss))
    facts = public_facts(problem_of(loss), make_shards(), clip=1.0)
    with pytest.raises(InputError, match="depend on other records"):
        plan(facts, algorithm, (ANY_LOSS[name](loss),), make_terms(), rounds=3, precision="float64")


class NoNumber(OwnLoss):
    """Planted fault: one target makes all sums no number."""

    def coefficient(self, margins, targets):
        return jnp.where(targets > 0, jnp.nan, margins - targets)


@pytest.mark.parametrize("name", ANY_LOSS)
def test_what_is_not_finite_counts_as_zero_for_that_record_alone(name):
    shard = make_shards().shard(0)
    zero = jnp.zeros(3)
    query = {
        "difference": Pair(zero, zero + 0.1),
        "projected step": Step(zero, zero, jnp.ones(()), jnp.ones(())),
    }.get(name, Point(zero))
    if "centre" in name:
        query = Around(query, zero)
    answer = ANY_LOSS[name](NoNumber()).exact(shard, jnp.asarray(12.0), query)
    assert np.all(np.isfinite(answer))
    assert np.any(np.asarray(answer) != 0)


class Wavers(OwnLoss):
    """Planted fault: a Lipschitz constant that grows once a plan was made."""

    readings: ClassVar[list[int]] = []

    @property
    def lipschitz(self):
        self.readings.append(1)
        return 1e-3 if len(self.readings) <= 1 else 1e3


@pytest.mark.parametrize("name", [name for name in ANY_LOSS if name != "difference"])
def test_a_constant_of_a_loss_is_read_once(name):
    Wavers.readings.clear()
    oracle = ANY_LOSS[name](Wavers())
    facts = oracle.facts(public_facts(PROBLEM, make_shards(), clip=1.0))
    gradient = getattr(oracle, "gradient", getattr(oracle, "inner", oracle))
    assert gradient.loss.lipschitz == 1e3
    assert facts["coefficient"] == gradient.coefficient_bound == 1e-3


class Slight(float):
    """Planted fault: a number that counts for nothing once it is multiplied."""

    def __mul__(self, other):
        return 1e-6

    __rmul__ = __mul__


class OfSlight(OwnLoss):
    """Planted fault: its Lipschitz constant is such a number."""

    lipschitz = Slight(0.5)


@pytest.mark.parametrize("name", [name for name in ANY_LOSS if name != "difference"])
def test_a_constant_of_a_loss_is_read_as_a_plain_number(name):
    facts = ANY_LOSS[name](OfSlight()).facts(public_facts(PROBLEM, make_shards(), clip=1.0))
    assert facts["row"] * facts["coefficient"] >= 0.5


class Remembers(OwnLoss):
    """Planted fault: once it has seen all targets, they are in what it computes."""

    seen: ClassVar[list[float]] = []

    def check_targets(self, targets):
        self.seen.append(float(np.sum(targets)))

    def coefficient(self, margins, targets):
        return jnp.full_like(margins, sum(self.seen))


def test_a_loss_of_ones_own_sees_no_target_but_in_what_is_traced():
    loss = Remembers()
    made = planned(Gradient(loss, 1.0), problem=problem_of(loss))
    run(made, make_shards(), runtime="simulate")
    assert Remembers.seen == []
    (condition,) = made.certificate.conditions  # it could look elsewhere in the same process
    assert condition.startswith(f"{NAME}Remembers runs in the process")
    assert made.certificate.conditional


class SetAndLoss(ConvexSet, OwnLoss):
    """Planted fault: a set whose projection expands, and which is called a loss besides."""

    def project(self, x):
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


class Jumps(OwnLoss):
    """A coefficient that last bits decide: vectorised code could round them by the slot."""

    def coefficient(self, margins, targets):
        return jnp.where(jnp.sin(jnp.exp(margins) * 2**40) > 0, 1.0, -1.0)


def test_a_record_has_the_same_coefficient_in_every_slot_of_a_batch():
    margins = jnp.asarray(np.random.default_rng(0).standard_normal(203))
    alone = jax.jit(partial(coefficients, alone=True), static_argnums=(0, 3))
    first = alone(Jumps(), margins, margins, 1.0)
    for skip in (1, 2, 3):
        later = alone(Jumps(), margins[skip:], margins[skip:], 1.0)
        np.testing.assert_array_equal(later, first[skip:])


@pytest.mark.parametrize("question", [ANY_LOSS["gradient"], ANY_LOSS["batch"]])
def test_records_of_a_loss_of_ones_own_are_mapped_one_by_one(question):
    """A loss that sees all records at once would move every coefficient with one target."""
    honest, faulty = (question(OwnLoss(together)) for together in (False, True))
    assert honest.claims() == faulty.claims() == ()
    shards = make_shards()
    runs = [
        run(
            planned(oracle, problem=Problem(oracle.loss, NoRegulariser(), WholeSpace())),
            shards, runtime="simulate", seed=0,
        ).model
        for oracle in (honest, faulty)
    ]  # fmt: skip
    np.testing.assert_array_equal(*runs)


def test_the_own_loss_that_sees_all_records_is_told_apart_where_it_is_called_at_once():
    margins, targets = jnp.zeros(4), jnp.asarray([1.0, -1.0, 1.0, 1.0])
    seen = [OwnLoss(together).coefficient(margins, targets) for together in (False, True)]
    assert np.max(np.abs(seen[0] - seen[1])) > 1


def test_a_gaussian_that_is_the_librarys_is_accepted():
    assert planned(Gradient(PROBLEM.loss, 1.0), mechanism=Gaussian()).certificate.trust == (
        "none: every link may be read"
    )


def smaller(self, spec, adjacency, *, norm):
    """Planted fault: a thousandth of the bound of a gradient."""
    facts = {"kind": "mean", "coefficient": 1e-3 * self.coefficient_bound, "row": spec.record_norm}
    return bound_of(facts, spec, adjacency, norm)


def test_a_class_of_the_library_with_another_method_is_somebody_elses(monkeypatch):
    assert not planned(Gradient(PROBLEM.loss, 1.0)).certificate.conditional
    monkeypatch.setattr(Gradient, "bound", smaller)
    certificate = planned(Gradient(PROBLEM.loss, 1.0)).certificate
    assert certificate.conditional
    assert "taciturn.kernel.questions.gradient:Gradient" in certificate.conditions[0]


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
    assert Gradient(PROBLEM.loss, 1.0).claims() == ("taciturn.kernel.questions.gradient:Gradient",)


def test_a_place_of_noise_with_another_method_is_refused_before_and_after_planning(monkeypatch):
    """Planted fault: the answer is released as it is."""
    made = planned(Gradient(PROBLEM.loss, 1.0))

    def bare(self, exact, shard, count, query, noise):
        return exact(shard, count, query)

    monkeypatch.setattr(AddedNoise, "answer", bare)
    with pytest.raises(InputError, match="no accountant knows"):
        planned(Gradient(PROBLEM.loss, 1.0))
    with pytest.raises(InputError, match="no accountant knows"):
        run(made, make_shards(), runtime="simulate")


def test_a_class_that_was_put_into_a_module_of_the_library_is_somebody_elses(monkeypatch):
    there = type("There", (Gradient,), {"bound": smaller, "__module__": Gradient.__module__})
    monkeypatch.setattr(sys.modules[Gradient.__module__], "There", there, raising=False)
    assert planned(there(PROBLEM.loss, 1.0)).certificate.conditional


class OwnRelation(ReplaceOne):
    """A relation of one's own."""


class OwnTerms(Terms):
    """Terms of one's own."""


class OwnLedger(Ledger):
    """Planted fault: an observer is said to learn a thousandth."""

    def mu_per_agent(self, observer):
        return 1e-3 * super().mu_per_agent(observer)


def of_class(kind, value):
    fields = dataclasses.fields(value)
    return kind(**{field.name: getattr(value, field.name) for field in fields})


@pytest.mark.parametrize(
    "terms", [make_terms(relation=OwnRelation()), of_class(OwnTerms, make_terms())]
)
def test_terms_of_ones_own_are_refused(terms):
    with pytest.raises(InputError, match="no accountant knows"):
        planned(Gradient(PROBLEM.loss, 1.0), terms=terms)


def test_a_ledger_of_ones_own_is_refused():
    made = planned(Gradient(PROBLEM.loss, 1.0))
    forged = dataclasses.replace(made, ledger=of_class(OwnLedger, made.ledger))
    stated = compose((forged.leg,), made.terms).certificate()
    assert stated.epsilon < 0.01
    forged = dataclasses.replace(forged, certificate=stated)
    with pytest.raises(InputError, match="OwnLedger is your own class"):
        run(forged, make_shards(), runtime="simulate")
