"""Methods by name, for the command line, estimators, audits and papers.

A method is an algorithm with its questions: DP-SGD is the noisy gradient algorithm on Poisson
batches. To add one, write a file and an entry in `METHODS`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np

from taciturn import checks
from taciturn.algorithms.admm import ADMM, DPADMM, at_agents, steady_rho
from taciturn.algorithms.algorithm import Algorithm, GossipAlgorithm, Noise, RelayAlgorithm
from taciturn.algorithms.gossip import EXTRA, NIDS, LinearisedGossipADMM
from taciturn.algorithms.linearised_admm import LinearisedADMM
from taciturn.algorithms.newton import COVARIANCES, NEWTON, newton
from taciturn.algorithms.noisy_gradient import ROUNDS, NoisyGradient, rounds_to_horizon
from taciturn.algorithms.one_question import EvaluateModel, OneQuestion
from taciturn.algorithms.relay import RECAL, Walkman
from taciturn.algorithms.splitting import (
    SADMM,
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    RenyiADMM,
    StepRule,
)
from taciturn.algorithms.vradmm import VRADMM, AcceleratedVRADMM, variance_reduction
from taciturn.calibration import gaussian_multiplier, scales_for, spread_of
from taciturn.errors import InputError
from taciturn.kernel import questions
from taciturn.kernel.privacy import LEAST_RATE, Messages, Observer, ReplaceOne, Terms
from taciturn.kernel.records import Spec
from taciturn.problems import (
    Identity,
    Loss,
    Named,
    Problem,
    Squared,
    default_clip,
    default_loss,
    structured_from,
)
from taciturn.problems import register as register_part
from taciturn.typing import Task

Value = float | int | str
T = TypeVar("T")
LEAST, MOST = 1e-30, 1e30
TARGET_BOUND = 1.0  # targets are mapped to [-1, 1]
LARGEST_SLOPE = 1e6  # of a record in `newton`, where nothing else bounds it
RESIDUAL_BOUND = 0.25  # of residuals, an eighth of the target's range


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public facts that a method is built from.

    `clip`: bound on the norm of a record's coefficient; may be infinite. `options`: the values of
    the method's options, by name. `fixed`: the places of features with a given coefficient.
    `cells`: the number of cells of each table that is counted; by default two of every feature.
    """

    problem: Problem
    facts: Spec
    clip: float
    terms: Terms
    rounds: int
    options: dict[str, Value]
    fixed: tuple[tuple[int, float], ...] = ()
    cells: tuple[int, ...] = ()

    def number(self, option: str) -> float:
        """Return the value of an option that is a number."""
        return float(self.options[option])

    @property
    def step_rule(self) -> StepRule | None:
        """The step rule of the published form; None for the accelerated form."""
        rule = self.options["steps"]
        if rule == "accelerated":
            return None
        return "published" if rule == "published" else "public"

    @property
    def records(self) -> int | None:
        """Number of records that fixed-size batches are drawn from; None for Poisson batches."""
        if self.options["batches"] != "fixed":
            return None
        relation = self.terms.adjacency.relation
        if not isinstance(relation, ReplaceOne):
            raise InputError(
                f"batches of a fixed size are accounted for under replace_one only, not under "
                f"{relation.name}; use Poisson batches or replace_one"
            )
        return min(self.facts.counts)


@dataclass(frozen=True)
class Option:
    """One option of a method.

    - `name`: In Python's form; `title` is the command line's, with - for _.
    - `default`: A value, or a function of the setting, whose `options` are then empty.
    - `check`: Maps title and given value to the value used; raises `InputError`.
    - `help`: A few words for help texts.
    """

    name: str
    kind: type[Value]
    default: Value | Callable[[Setting], Value]
    check: Callable[[str, Any], Value]
    help: str

    def value(self, given: Value | None, setting: Setting) -> Value:
        """Return the given value, checked, or the default."""
        if given is not None:
            return self.checked(given)
        return self.default(setting) if callable(self.default) else self.default

    def checked(self, given: Any) -> Value:
        """Return a value of the option's kind; `InputError` for any other."""
        fits = isinstance(given, (str, int, float)) and not isinstance(given, bool)
        if not fits or isinstance(given, str) != (self.kind is str):
            kinds = {float: "a number", int: "a whole number", str: "text"}
            raise InputError(f"{self.title} is {given!r}; it must be {kinds[self.kind]}")
        value = self.kind(self.check(self.title, given))
        if isinstance(value, float) and value != 0 and not LEAST <= abs(value) <= MOST:
            raise InputError(
                f"{self.title} is {given:g}; single precision computes with numbers between "
                f"{LEAST:g} and {MOST:g}"
            )
        return value

    @property
    def title(self) -> str:
        """The name in the command line's form."""
        return self.name.replace("_", "-")


def noise_of_gradients(setting: Setting, observer: Observer) -> Noise:
    """Return the noise that the terms require of gradients on all records, without a centre."""
    terms, multiplier = setting.terms, 0.0
    if math.isfinite(terms.epsilon):
        multiplier = gaussian_multiplier(terms.epsilon, terms.delta, setting.rounds)
        multiplier *= spread_of(terms.adjacency, setting.facts.agents, terms.observer)
    gradient = {"kind": "mean", "coefficient": setting.facts.gradient_bound, "row": 1.0}
    bound = questions.bound_of(gradient, setting.facts, terms.adjacency, "l2")
    moves = np.where(np.isfinite(bound.value[:, 0, 0]), bound.value[:, 0, 0], 0.0)
    return Noise(multiplier, scales_for(moves, multiplier, observer))


def _steady(setting: Setting) -> float:
    """Return `steady_rho` for the noise that the terms require; no sums are credited."""
    noise = noise_of_gradients(setting, Messages())
    return float(steady_rho(setting.facts, setting.rounds, noise))


def _to_horizon(setting: Setting) -> int:
    """Return `rounds_to_horizon` for the noise that the terms require."""
    noise = noise_of_gradients(setting, setting.terms.observer)
    return rounds_to_horizon(setting.facts, setting.rounds, noise)


def _rate(title: str, given: Any) -> float:
    rate = checks.fraction(title, given)
    if rate < LEAST_RATE:
        raise InputError(f"{title} is {rate:g}; it must be at least {LEAST_RATE:g}")
    return rate


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    def check(title: str, given: Any) -> str:
        if given not in choices:
            raise InputError(f"{title} is {given!r}; choose from {', '.join(choices)}")
        return str(given)

    return check


RHO = Option("rho", float, 0.1, checks.positive, "The ADMM parameter.")
STEADY_RHO = dataclasses.replace(RHO, default=_steady)
LOCAL_UPDATES = Option(
    "local_updates",
    int,
    1,
    lambda title, given: checks.at_least(title, given, 1),
    "Updates per round, each one question.",
)
SAMPLING_RATE = Option("sampling_rate", float, 0.1, _rate, "Share of the records in a batch.")
BATCH_SIZES = Option(
    "batches",
    str,
    "poisson",
    _one_of("poisson", "fixed"),
    "poisson, or fixed: of fixed size, without replacement (replace_one only).",
)
SMOOTHING = Option("smoothing", float, 0.0, checks.not_negative, "Strength of Laplacian smoothing.")
STEP_RULE = Option(
    "steps",
    str,
    "accelerated",
    _one_of("accelerated", "public", "published"),
    "accelerated: with momentum; public: without; published: as printed.",
)


COVARIANCE = Option(
    "covariance",
    str,
    lambda setting: "dispersion" if isinstance(setting.problem.loss, Squared) else "model",
    _one_of(*COVARIANCES),
    "What standard errors rest on: model, dispersion or robust.",
)


class Composition(NamedTuple):
    """An algorithm with its questions, in the order of their numbers."""

    algorithm: Algorithm
    oracles: tuple[questions.Oracle, ...]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A named method.

    - `build`: Maps public facts to the algorithm and its questions.
    - `summary`: A few words for help texts.
    - `options`: The method's options; others are refused.
    - `rounds`: The default number of rounds; on a relay, of sweeps of one hop per agent.
    - `enough`: Maps public facts to a default number of rounds, in place of `rounds`.
    - `network`: "relay" or "gossip" if there is no aggregator.
    - `structure`: "required" if the method solves only structured problems, "allowed" if it treats
      a structure as a regulariser, through its prox.
    - `minimises`, `inside`: Whether the answer is a minimiser, or determines one, and no gradient
      (the coefficient of a loss of several margins is then not clipped), and whether the noise is
      inside the objective, so that the answer has no mu.
    - `epoch`: Maps the sampling rate to the number of rounds of an epoch.
    - `most`: The largest bound on a record's coefficient with which it can be asked.
    - `elsewhere`: Maps a proposal to the stand-in of a method that runs in a separate process.
    """

    build: Callable[[Setting], Composition]
    summary: str
    options: tuple[Option, ...] = ()
    rounds: int = ROUNDS[0]
    enough: Callable[[Setting], int] | None = None
    network: Literal["relay", "gossip"] | None = None
    structure: Literal["required", "allowed"] | None = None
    minimises: bool = False
    inside: bool = False
    epoch: Callable[[float], int] = lambda _: 1
    most: float = math.inf
    elsewhere: Callable[[Any], Composition] | None = None

    @classmethod
    def of(cls, target: Callable[[Problem], Any]) -> Method:
        """Return the method of a user's class, or of a function of the problem.

        It returns an `Algorithm`, which states its questions, or a `Composition`.
        """
        # a function names its network in an attribute, perhaps of a function that it wraps
        written: Any = target
        kind = _network_of(written)
        while hasattr(written, "__wrapped__"):
            written = written.__wrapped__
            kind = kind or _network_of(written)
        if isinstance(written, type) and issubclass(written, RelayAlgorithm):
            kind = "relay"
        elif isinstance(written, type) and issubclass(written, GossipAlgorithm):
            kind = "gossip"

        def build(setting: Setting) -> Composition:
            result = target(setting.problem)
            if isinstance(result, Composition):
                return result
            return Composition(result, result.oracles(setting.clip))

        return cls(build=build, summary="a method of your own", network=kind)

    def loss_for(self, task: Task, epsilon: float) -> Named:
        """Return the default loss (`taciturn.problems.default_loss`): a bounded one under privacy.

        Noise inside an objective needs a second derivative, which the bounded one does not have,
        and a minimiser a gradient, which that of several classes is not.
        """
        likelihood = self.inside or (self.minimises and task == "multiclass")
        return default_loss(task, bounded=math.isfinite(epsilon) and not likelihood)

    def clip_for(self, loss: Loss, epsilon: float) -> float:
        """Return the default bound on a record's coefficient.

        `taciturn.problems.default_clip`; infinite without privacy, and if the answers are
        minimisers of a loss of several margins. For gradients of the squared loss, 1/4.

        *Residuals.* A bound c makes the loss Huber's, whose estimate of a normal mean has 95 % of
        the efficiency of least squares at c = 1.345 standard deviations of a residual. A public
        range is wide: these are often between a fourth and a tenth of half of it. The noise is
        proportional to c, and the range is no property of the residuals, so c = 1, the largest
        residual at w = 0, adds noise for values that hardly occur. Measured in
        docs/how-to/choose-a-method.md.
        """
        if isinstance(loss, Squared) and not self.minimises and math.isfinite(epsilon):
            return RESIDUAL_BOUND
        unclipped = self.minimises and loss.outputs is not None
        found = math.inf if math.isinf(epsilon) or unclipped else default_clip(loss)
        return min(found, self.most)

    def has(self, option: str) -> bool:
        """Whether the method has an option of that name."""
        return any(declared.name == option for declared in self.options)

    @property
    def sampled(self) -> bool:
        """Whether its questions are asked on batches."""
        return self.has(SAMPLING_RATE.name)


def _network_of(function: Any) -> Literal["relay", "gossip"] | None:
    """Return the network that a function names for its method."""
    stated = getattr(function, "network", None)
    return stated if stated in ("relay", "gossip") else None


def _on_gradients(algorithm: Callable[[Problem], Algorithm], setting: Setting) -> Composition:
    """Return a method that asks for the gradient of all records."""
    question = questions.Gradient(setting.problem.loss, setting.clip)
    return Composition(algorithm(setting.problem), (question,))


def _on_batches(algorithm: Algorithm, setting: Setting) -> Composition:
    """Return a method that asks for the gradient on batches."""
    question = questions.MinibatchGradient(
        setting.problem.loss, setting.clip, setting.number("sampling_rate"), records=setting.records
    )
    return Composition(algorithm, (question,))


def _dp_admm(setting: Setting) -> Composition:
    rho = setting.number("rho")
    kind = partial(DPADMM, rho=rho, radius=None, step_rule="smooth", regulariser_at="server")
    return _on_gradients(kind, setting)


def _exact_step(setting: Setting, *, inside: bool) -> Composition:
    """Return ADMM with exact steps, and noise on their answers or inside their objectives."""
    rho, agents = setting.number("rho"), at_agents(setting.problem, "server")
    step = questions.ProximalStep(agents, setting.clip, rho, setting.facts.record_norm)
    algorithm = ADMM(setting.problem, rho, regulariser_at="server")
    return Composition(algorithm, (questions.PerturbedStep(step) if inside else step,))


def _sadmm(setting: Setting) -> Composition:
    structured, rule = structured_from(setting.problem), setting.step_rule
    smoothing = setting.number("smoothing")
    kind = AcceleratedADMM if rule is None else partial(SADMM, step_rule=rule)
    return _on_batches(kind(structured, smoothing), setting)


def _renyi_admm(setting: Setting) -> Composition:
    structured, rule = structured_from(setting.problem), setting.step_rule
    if not isinstance(structured.forward, Identity):
        raise InputError("renyi-admm is for the structure lasso; use sadmm or vradmm for others")
    if rule is None:
        return _on_batches(AcceleratedRenyiADMM(structured), setting)
    return _on_batches(RenyiADMM(structured, step_rule=rule), setting)


def _inner(rate: float) -> int:
    """Return m = 2 / q: twice the data between snapshots, as in Liu et al. 2022."""
    return max(1, round(2 / rate))


def _vradmm(setting: Setting) -> Composition:
    """Return DP-VRADMM with its two questions; logistic coefficients keep their sign."""
    loss, rate = setting.problem.loss, setting.number("sampling_rate")
    clip, inner = min(setting.clip, loss.lipschitz), _inner(rate)
    spread = clip if loss.start_coefficient is not None else 2 * clip
    questions, noise = variance_reduction(
        loss, clip=clip, spread=spread, rate=rate, inner=inner, records=setting.records
    )
    structured, rule = structured_from(setting.problem), setting.step_rule
    kind = AcceleratedVRADMM if rule is None else partial(VRADMM, step_rule=rule)
    algorithm: Algorithm = kind(
        structured, setting.number("smoothing"), inner=inner, snapshot_noise=noise
    )
    return Composition(algorithm, questions)


def _newton(setting: Setting) -> Composition:
    """Return Newton's method with the question of each round."""
    clip = min(setting.clip, setting.problem.loss.lipschitz)
    covariance = str(setting.options["covariance"])
    algorithm = newton(
        setting.problem, setting.facts, clip, setting.rounds, covariance, setting.fixed
    )
    return Composition(algorithm, algorithm.asks)


def _counts(setting: Setting) -> Composition:
    """Return one question for the counts in all tables, at no point."""
    facts = setting.facts
    asked = questions.Counts(setting.cells or (2,) * facts.shape[0])
    cells = asked.answer_shape(facts.shape)[0]
    return Composition(EvaluateModel(jnp.zeros(facts.shape), cells), (asked,))


_SAMPLED = (SAMPLING_RATE, BATCH_SIZES)
_STRUCTURED: dict[str, Any] = {
    "options": (*_SAMPLED, SMOOTHING, STEP_RULE),
    "structure": "required",
}
_METHODS: dict[str, Method] = {
    "noisy-gradient": Method(
        build=partial(_on_gradients, NoisyGradient),
        summary="gradient steps with momentum on noised gradients",
        enough=_to_horizon,
        structure="allowed",
    ),
    "dp-admm": Method(build=_dp_admm, summary="DP-ADMM (Huang et al. 2019)", options=(RHO,)),
    "pvp": Method(
        build=partial(_exact_step, inside=False),
        summary="ADMM with noise on exact local steps",
        options=(STEADY_RHO,),
        minimises=True,
    ),
    "dvp": Method(
        build=partial(_exact_step, inside=True),
        summary="ADMM with noise inside the local objectives",
        options=(STEADY_RHO,),
        minimises=True,
        inside=True,
    ),
    "linearised-admm": Method(
        build=lambda setting: _on_gradients(
            partial(LinearisedADMM, local_updates=int(setting.options["local_updates"])),
            setting,
        ),
        summary="linearised ADMM with local updates (Ryu and Kim 2023)",
        options=(LOCAL_UPDATES,),
    ),
    "dp-sgd": Method(
        build=lambda setting: _on_batches(NoisyGradient(setting.problem), setting),
        summary="noisy-gradient on batches",
        options=_SAMPLED,
        structure="allowed",
    ),
    "one-question": Method(
        build=lambda setting: Composition(
            OneQuestion(setting.problem),
            (questions.Statistics(min(setting.clip, TARGET_BOUND)),),
        ),
        summary="X'X and X'y, asked once (squared loss)",
        rounds=1,
        minimises=True,
    ),
    NEWTON: Method(
        build=_newton,
        summary="few Newton steps on noised second derivatives",
        options=(COVARIANCE,),
        rounds=8,
        most=LARGEST_SLOPE,
    ),
    "sadmm": Method(
        build=_sadmm,
        summary="stochastic ADMM for a structure (Liu et al. 2022)",
        **_STRUCTURED,
    ),
    "vradmm": Method(
        build=_vradmm,
        summary="sadmm with variance reduction (Liu et al. 2022)",
        epoch=lambda rate: _inner(rate) + 1,
        **_STRUCTURED,
    ),
    "renyi-admm": Method(
        build=_renyi_admm,
        summary="stochastic ADMM for the lasso (Chen and Lee 2020)",
        options=(*_SAMPLED, STEP_RULE),
        structure="required",
    ),
    **{
        name: Method(build=partial(_on_gradients, kind), summary=summary, network="relay")
        for name, kind, summary in (
            ("recal", RECAL, "a token on a walk, sound form (Wang et al. 2024)"),
            ("walkman", Walkman, "another token method"),
        )
    },
    **{
        name: Method(build=partial(_on_gradients, kind), summary=summary, network="gossip")
        for name, kind, summary in (
            ("nids", NIDS, "gossip with gradient correction"),
            ("ic-admm", LinearisedGossipADMM, "linearised ADMM by gossip"),
            ("extra", EXTRA, "PG-EXTRA by gossip"),
        )
    },
}
METHODS: Mapping[str, Method] = MappingProxyType(_METHODS)
COUNTS = "counts"  # it releases counts and no model, so it is no method of the table
_COUNTING = Method(build=_counts, summary="counts in tables, asked once", rounds=1, minimises=True)


def register(kind: T) -> T:
    """Register a custom class or function under the name `module:name`; a decorator.

    A method is an `Algorithm`, or a function from a `Problem` to an algorithm or a `Composition`;
    for losses, regularisers and sets see `taciturn.problems.register`.

    **Guarantee.** As for `taciturn.problems.register`: a process that did not register a class
    refuses proposals that name it.
    """
    made: Any = kind
    if isinstance(made, type) and not issubclass(made, Algorithm):
        register_part(made)
    else:
        _METHODS[questions.name_of_class(made)] = Method.of(made)
    return kind


def method_named(name: str, methods: Mapping[str, Method] = METHODS) -> Method:
    """Return the method of that name; `InputError` if there is none."""
    if name == COUNTS:
        return _COUNTING
    if name not in methods:
        raise InputError(f"unknown algorithm {name!r}; choose from {', '.join(methods)}")
    return methods[name]


def check_options(name: str, method: Method, given: Mapping[str, Any]) -> dict[str, Value]:
    """Return the options in their declared types; `InputError` for an option that it lacks."""
    values = {}
    for option, value in given.items():
        declared = next((entry for entry in method.options if entry.name == option), None)
        if declared is None:
            others = [other for other, one in METHODS.items() if one.has(option)]
            use = f", or use {', '.join(others)}" if others else ""
            raise InputError(f"{name} has no option {option.replace('_', '-')}; leave it out{use}")
        values[option] = declared.checked(value)
    return values


def rounds_by_default(method: Method, setting: Setting, given: Mapping[str, Value]) -> int:
    """Return the default number of rounds: whole epochs, and whole sweeps on a relay.

    `Method.enough` if the method has that, from the setting; its `rounds` are not read.
    """
    if method.enough is not None:
        return method.enough(dataclasses.replace(setting, rounds=1))
    rate = float(given.get("sampling_rate", SAMPLING_RATE.default)) if method.sampled else 1.0  # type: ignore[arg-type]
    epoch = method.epoch(rate)
    hops = setting.facts.agents if method.network == "relay" else 1
    return epoch * max(1, round(method.rounds / epoch)) * hops


def settled(method: Method, setting: Setting, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of every option of a method, as given or by default."""
    return {option.name: option.value(given.get(option.name), setting) for option in method.options}
