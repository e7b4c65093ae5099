"""The options of methods: what each is called, which values it takes, and its default.

A method declares its options once, in `taciturn.algorithms.METHODS`. The command line, proposals,
`taciturn.engine.plan` and the estimators take them from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from taciturn import checks
from taciturn.algorithms.newton import COVARIANCES
from taciturn.algorithms.splitting import StepRule
from taciturn.errors import InputError
from taciturn.kernel.privacy import LEAST_RATE, Laplace, Mechanism, ReplaceOne, Terms
from taciturn.kernel.records import Spec
from taciturn.problems import Problem, Squared

Value: TypeAlias = float | int | str
LEAST, MOST = 1e-30, 1e30
# of steps, radii and ADMM parameters: single precision can still multiply several of them
LEAST_SETTING, MOST_SETTING = 1e-9, 1e9


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

    def given(self, option: str) -> Any:
        """Return the value of an option without a default; None if it was not given."""
        return self.options.get(option)

    @property
    def mechanism(self) -> Mechanism | None:
        """The law of the noise that the options name; None for Gaussian."""
        return Laplace() if self.given("law") == "laplace" else None

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
    - `default`: A value, or a function of the setting, whose `options` are then empty. None: the
      option has a value only if it is given, and the method otherwise follows its public rule.
    - `check`: Maps title and given value to the value used; raises `InputError`.
    - `help`: A few words for help texts.
    - `only`: Another option and the values of it under which this one has an effect; None stands
      for "not given", and no values at all for "given".
    """

    name: str
    kind: type[Value]
    default: Value | Callable[[Setting], Value] | None
    check: Callable[[str, Any], Value]
    help: str
    only: tuple[str, tuple[Value | None, ...]] | None = None

    def under(self, other: str, *values: Value | None) -> Option:
        """Return the option as one that has an effect only under these values of another."""
        return dataclasses.replace(self, only=(other, values))

    def check_effect(self, values: Mapping[str, Value | None]) -> None:
        """Raise `InputError` if the option would have no effect beside these values of others."""
        if self.only is None:
            return
        other, suited = self.only
        value, title = values.get(other), other.replace("_", "-")
        if value in suited or (not suited and value is not None):
            return
        needed = " or ".join(str(one) for one in suited if one is not None)
        way = f"add {title} {needed}".rstrip()
        if not needed and suited:
            way = f"leave {title} out"
        state = f"without {title}" if value is None else f"where {title} is {value}"
        raise InputError(f"{self.title} has no effect {state}; {way}, or leave {self.title} out")

    def value(self, given: Value | None, setting: Setting) -> Value | None:
        """Return the given value, checked, or the default; None where there is neither."""
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


def _rate(title: str, given: Any) -> float:
    rate = checks.fraction(title, given)
    if rate < LEAST_RATE:
        raise InputError(f"{title} is {rate:g}; it must be at least {LEAST_RATE:g}")
    return rate


def _moderate(title: str, given: Any) -> float:
    number = checks.positive(title, given)
    if not LEAST_SETTING <= number <= MOST_SETTING:
        raise InputError(
            f"{title} is {number:g}; it must be between {LEAST_SETTING:g} and {MOST_SETTING:g}, "
            "within which no intermediate result overflows"
        )
    return number


def numbers_of(title: str, text: str) -> tuple[float, ...]:
    """Return the numbers in a text such as "0.1,0.2", one for each agent; `InputError` if none."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{title} is {text!r}; give a number for each agent, separated by commas, as in 0.5,1"
        ) from error


def _several(title: str, given: Any) -> str:
    return ",".join(repr(_moderate(title, number)) for number in numbers_of(title, given))


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    def check(title: str, given: Any) -> str:
        if given not in choices:
            raise InputError(f"{title} is {given!r}; choose from {', '.join(choices)}")
        return str(given)

    return check


RHO = Option("rho", float, 0.1, _moderate, "The ADMM parameter.")
STATED_RHO = dataclasses.replace(RHO, default=None)
STEP_SIZE = Option(
    "step_size",
    float,
    None,
    _moderate,
    "Step size: eta or alpha in the papers, or the learning rate.",
)
AGENT_STEP_SIZES = Option(
    "agent_step_sizes",
    str,
    None,
    _several,
    "A step size for each agent, as 0.5,1.2,0.8.",
)
OBJECTIVE_SCALE = Option(
    "objective_scale",
    float,
    None,
    _moderate,
    "Factor s of the objective; with 1 step sizes are the paper's alpha.",
)
STEP_DECAY = Option(
    "step_decay",
    str,
    None,
    _one_of("none", "sqrt"),
    "Of a given step size: none, or sqrt: divided by sqrt(t) in round t.",
)
DPADMM_RULE = Option(
    "step_rule",
    str,
    None,
    _one_of("smooth", "nonsmooth", "constant"),
    "smooth: (34) of Huang et al. 2019; nonsmooth: (29); constant: --step-size.",
)
RADIUS = Option(
    "radius",
    float,
    None,
    _moderate,
    "c_w, a public bound on the norm of the solution; one found in the records is not private.",
)
REGULARISER_AT = Option(
    "regulariser_at",
    str,
    None,
    _one_of("server", "agents"),
    "Who applies the regulariser: server, by its exact prox; agents: in their steps, as printed.",
)
LOCAL_UPDATES = Option(
    "local_updates",
    int,
    1,
    lambda title, given: checks.at_least(title, given, 1),
    "Updates per round, each one question.",
)
ARM = Option(
    "arm",
    str,
    None,
    _one_of("objective", "output", "projected-output"),
    "Where the noise is: objective: on the gradient; output: on the solution; "
    "projected-output: there, and the solution is projected after it.",
)
LAW = Option("law", str, None, _one_of("gaussian", "laplace"), "Law of the noise.")
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
GAMMA = Option(
    "gamma",
    float,
    None,
    _moderate,
    "The gamma of Liu et al. 2022, which divides the step; by default 1 + eta rho |A'A|.",
)
FORM = Option(
    "form",
    str,
    None,
    _one_of("general", "strongly-convex"),
    "general, or strongly-convex: that step rule (sadmm), or a restart in each epoch (vradmm).",
)
COVARIANCE = Option(
    "covariance",
    str,
    lambda setting: "dispersion" if isinstance(setting.problem.loss, Squared) else "model",
    _one_of(*COVARIANCES),
    "What standard errors rest on: model, dispersion or robust.",
)
