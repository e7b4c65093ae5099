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
from taciturn.algorithms.admm import ADMM, DPADMM, Placement, at_agents, steady_rho
from taciturn.algorithms.algorithm import Algorithm, GossipAlgorithm, Noise, RelayAlgorithm
from taciturn.algorithms.gossip import EXTRA, NIDS, LinearisedGossipADMM
from taciturn.algorithms.linearised_admm import (
    Arm,
    LinearisedADMM,
    PublicSettings,
    StatedSettings,
)
from taciturn.algorithms.newton import NEWTON, newton
from taciturn.algorithms.noisy_gradient import ROUNDS, NoisyGradient, rounds_to_horizon
from taciturn.algorithms.one_question import EvaluateModel, OneQuestion
from taciturn.algorithms.options import (
    AGENT_STEP_SIZES,
    ARM,
    BATCH_SIZES,
    COVARIANCE,
    DPADMM_RULE,
    FORM,
    GAMMA,
    LAW,
    LOCAL_UPDATES,
    OBJECTIVE_SCALE,
    RADIUS,
    REGULARISER_AT,
    RHO,
    SAMPLING_RATE,
    SMOOTHING,
    STATED_RHO,
    STEP_DECAY,
    STEP_RULE,
    STEP_SIZE,
    Option,
    Setting,
    Value,
    numbers_of,
)
from taciturn.algorithms.relay import RECAL, Walkman
from taciturn.algorithms.splitting import (
    SADMM,
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    RenyiADMM,
)
from taciturn.algorithms.vradmm import VRADMM, AcceleratedVRADMM, variance_reduction
from taciturn.calibration import deviation_of, gaussian_multiplier, scales_for, spread_of
from taciturn.errors import InputError
from taciturn.kernel import questions
from taciturn.kernel.privacy import Gaussian, Laplace, Messages, Observer
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

T = TypeVar("T")
TARGET_BOUND = 1.0  # targets are mapped to [-1, 1]
LARGEST_SLOPE = 1e6  # of a record in `newton`, where nothing else bounds it
RESIDUAL_BOUND = 0.25  # of residuals, an eighth of the target's range


def noise_of_gradients(setting: Setting, observer: Observer) -> Noise:
    """Return the noise that the terms require of gradients on all records, without a centre.

    For the Laplace law that of T answers of epsilon / T each, an upper bound.
    """
    terms, multiplier = setting.terms, 0.0
    law = setting.mechanism or Gaussian()
    if math.isfinite(terms.epsilon) and isinstance(law, Laplace):
        multiplier, observer = setting.rounds / terms.epsilon, Messages()
    elif math.isfinite(terms.epsilon):
        multiplier = gaussian_multiplier(terms.epsilon, terms.delta, setting.rounds)
        multiplier *= spread_of(terms.adjacency, setting.facts.agents, terms.observer)
    gradient = {"kind": "mean", "coefficient": setting.facts.gradient_bound, "row": 1.0}
    bound = questions.bound_of(gradient, setting.facts, terms.adjacency, law.norm)
    moves = np.where(np.isfinite(bound.value[:, 0, 0]), bound.value[:, 0, 0], 0.0)
    return Noise(multiplier, deviation_of(scales_for(moves, multiplier, observer), law))


def _steady(setting: Setting) -> float:
    """Return `steady_rho` for the noise that the terms require; no sums are credited."""
    noise = noise_of_gradients(setting, Messages())
    return float(steady_rho(setting.facts, setting.rounds, noise))


def _to_horizon(setting: Setting) -> int:
    """Return `rounds_to_horizon` for the noise that the terms require."""
    noise = noise_of_gradients(setting, setting.terms.observer)
    return rounds_to_horizon(setting.facts, setting.rounds, noise)


STEADY_RHO = dataclasses.replace(RHO, default=_steady, check=checks.positive)


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


def _noisy_gradient(problem: Problem, setting: Setting) -> NoisyGradient:
    return NoisyGradient(problem, step_size=setting.given("step_size"))


def _placement(setting: Setting) -> Placement:
    return setting.given("regulariser_at") or "server"


def _dp_admm(setting: Setting) -> Composition:
    kind = partial(
        DPADMM,
        rho=setting.number("rho"),
        radius=setting.given("radius"),
        step_rule=setting.given("step_rule") or "smooth",
        regulariser_at=_placement(setting),
        step_size=setting.given("step_size"),
    )
    return _on_gradients(kind, setting)


def _exact_step(setting: Setting, *, inside: bool) -> Composition:
    """Return ADMM with exact steps, and noise on their answers or inside their objectives."""
    rho, placement = setting.number("rho"), _placement(setting)
    agents = at_agents(setting.problem, placement)
    step = questions.ProximalStep(agents, setting.clip, rho, setting.facts.record_norm)
    algorithm = ADMM(setting.problem, rho, regulariser_at=placement)
    return Composition(algorithm, (questions.PerturbedStep(step) if inside else step,))


def _linearised_admm(setting: Setting) -> Composition:
    """Return linearised ADMM; its arm decides which answer is noised."""
    rho, step = setting.given("rho"), setting.given("step_size")
    settings = PublicSettings()
    if rho is not None or step is not None:
        decays = setting.given("step_decay") == "sqrt"
        settings = StatedSettings(stated_rho=rho, stated_step=step, decays=decays)
    arm: Arm = setting.given("arm") or "objective"
    updates = int(setting.options["local_updates"])
    kind = partial(LinearisedADMM, local_updates=updates, arm=arm, settings=settings)
    if arm == "objective":
        return _on_gradients(kind, setting)
    step_asked = questions.ProjectedStep(setting.problem, setting.clip)
    return Composition(kind(setting.problem), (step_asked,))


def _recal(problem: Problem, setting: Setting) -> RECAL:
    each = setting.given("agent_step_sizes")
    return RECAL(
        problem,
        step=setting.given("step_size"),
        objective_scale=setting.given("objective_scale"),
        agent_steps=None if each is None else numbers_of("agent-step-sizes", each),
    )


def _with_step(kind: Any, problem: Problem, setting: Setting) -> Algorithm:
    algorithm: Algorithm = kind(problem, step=setting.given("step_size"))
    return algorithm


def _of_setting(kind: Callable[[Problem, Setting], Algorithm], setting: Setting) -> Composition:
    """Return a method on gradients of all records that reads the setting."""
    return _on_gradients(lambda problem: kind(problem, setting), setting)


def _printed(kind: Any, setting: Setting, **others: Any) -> Any:
    """Return the printed form of a method of Liu et al. 2022 with the options that are given."""
    return partial(
        kind,
        step_rule=setting.step_rule,
        rho=setting.given("rho"),
        stated_step=setting.given("step_size"),
        decays=setting.given("step_decay") == "sqrt",
        gamma=setting.given("gamma"),
        form=setting.given("form"),
        **others,
    )


def _sadmm(setting: Setting) -> Composition:
    structured, rule = structured_from(setting.problem), setting.step_rule
    if setting.given("form") == "strongly-convex" and setting.given("step_size") is not None:
        raise InputError(
            "the strongly convex form determines the step size, 2 gamma |Q_v| / (mu t); leave "
            "step-size out, or use the general form"
        )
    kind = AcceleratedADMM if rule is None else _printed(SADMM, setting)
    return _on_batches(kind(structured, setting.number("smoothing")), setting)


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
    restart = setting.given("form") == "strongly-convex"
    kind = AcceleratedVRADMM if rule is None else _printed(VRADMM, setting, restart=restart)
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
_PRINTED = tuple(
    one.under("steps", "public", "published") for one in (STATED_RHO, STEP_SIZE, GAMMA, FORM)
)
_STRUCTURED: dict[str, Any] = {
    "options": (*_SAMPLED, SMOOTHING, STEP_RULE, *_PRINTED, STEP_DECAY.under("step_size")),
    "structure": "required",
}
_METHODS: dict[str, Method] = {
    "noisy-gradient": Method(
        build=partial(_of_setting, _noisy_gradient),
        summary="gradient steps with momentum on noised gradients",
        options=(STEP_SIZE,),
        enough=_to_horizon,
        structure="allowed",
    ),
    "dp-admm": Method(
        build=_dp_admm,
        summary="DP-ADMM (Huang et al. 2019)",
        options=(
            RHO,
            DPADMM_RULE,
            RADIUS.under("step_rule", None, "smooth", "nonsmooth"),
            STEP_SIZE.under("step_rule", "constant"),
            REGULARISER_AT,
        ),
    ),
    "pvp": Method(
        build=partial(_exact_step, inside=False),
        summary="ADMM with noise on exact local steps",
        options=(STEADY_RHO, REGULARISER_AT),
        minimises=True,
    ),
    "dvp": Method(
        build=partial(_exact_step, inside=True),
        summary="ADMM with noise inside the local objectives",
        options=(STEADY_RHO, REGULARISER_AT),
        minimises=True,
        inside=True,
    ),
    "linearised-admm": Method(
        build=_linearised_admm,
        summary="linearised ADMM with local updates (Ryu and Kim 2023)",
        options=(LOCAL_UPDATES, STATED_RHO, STEP_SIZE, STEP_DECAY.under("step_size"), ARM, LAW),
    ),
    "dp-sgd": Method(
        build=lambda setting: _on_batches(_noisy_gradient(setting.problem, setting), setting),
        summary="noisy-gradient on batches",
        options=(*_SAMPLED, STEP_SIZE),
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
    "recal": Method(
        build=partial(_of_setting, _recal),
        summary="a token on a walk, sound form (Wang et al. 2024)",
        options=(STEP_SIZE.under("agent_step_sizes", None), AGENT_STEP_SIZES, OBJECTIVE_SCALE),
        network="relay",
    ),
    "walkman": Method(
        build=partial(_of_setting, partial(_with_step, Walkman)),
        summary="another token method",
        options=(STEP_SIZE,),
        network="relay",
    ),
    **{
        name: Method(
            build=partial(_of_setting, partial(_with_step, kind)),
            summary=summary,
            options=(STEP_SIZE,),
            network="gossip",
        )
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
    """Return the options in their declared types.

    Raises `InputError` for an option that the method lacks, and for one that would have no effect.
    """
    values = {}
    for option, value in given.items():
        declared = next((entry for entry in method.options if entry.name == option), None)
        if declared is None:
            others = [other for other, one in METHODS.items() if one.has(option)]
            use = f", or use {', '.join(others)}" if others else ""
            raise InputError(f"{name} has no option {option.replace('_', '-')}; leave it out{use}")
        values[option] = declared.checked(value)
    plain = {one.name: one.default for one in method.options if not callable(one.default)}
    for declared in method.options:
        if declared.name in values:
            declared.check_effect({**plain, **values})
    return values


def rounds_by_default(
    method: Method, setting: Setting, given: Mapping[str, Value], epochs: int | None = None
) -> int:
    """Return the default number of rounds: whole epochs, and whole sweeps on a relay.

    `Method.enough` if the method has that, from the setting; its `rounds` are not read. With
    `epochs` the rounds of so many: where an epoch is a single round, 1 / sampling rate for each.
    """
    if method.enough is not None:
        return method.enough(dataclasses.replace(setting, rounds=1))
    rate = float(given.get("sampling_rate", SAMPLING_RATE.default)) if method.sampled else 1.0  # type: ignore[arg-type]
    epoch = method.epoch(rate)
    if epochs is not None:
        return epochs * (epoch if epoch > 1 else max(1, round(1 / rate)))
    hops = setting.facts.agents if method.network == "relay" else 1
    return epoch * max(1, round(method.rounds / epoch)) * hops


def settled(method: Method, setting: Setting, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of every option of a method that has one, as given or by default."""
    values = {
        option.name: option.value(given.get(option.name), setting) for option in method.options
    }
    return {name: value for name, value in values.items() if value is not None}
