"""The table of coefficients: estimates, standard errors, intervals and p-values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from taciturn.algorithms import NEWTON, Asked, Newton
from taciturn.engine import Plan
from taciturn.errors import InputError
from taciturn.features import Formula
from taciturn.kernel.questions import Layout, Loss
from taciturn.problems import NONE, CumulativeLogistic, PiecewiseExponential, Survival
from taciturn.regression.families import FAMILIES, Family
from taciturn.regression.inference import Fit, fit
from taciturn.tables import INTERCEPT, MISSING, Bounds, Numeric
from taciturn.tables.form import day_text
from taciturn.training import Proposal
from taciturn.typing import HostArray

LEVEL = 0.95


class Coefficient(NamedTuple):
    """One row of the table, per unit of the user's columns.

    - `by_sampling`, `by_noise`: The parts of the standard error, whose squares add up.
    - `effect`, `effect_low`, `effect_high`: The exponentials of estimate and interval: an odds or
      rate ratio; None if that is nothing.
    - `constant`: Whether it is that of no column.
    """

    term: str
    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float | None  # None if the error is 0
    by_sampling: float
    by_noise: float
    effect: float | None
    effect_low: float | None
    effect_high: float | None
    constant: bool


@dataclass(frozen=True)
class RegressionTable:
    """Coefficients with their standard errors, or the reason why there are none.

    - `references`: The value of each category against which the others are compared.
    - `refused`: Why nothing is estimated; None if it is.
    - `private`: Whether noise was added; without it the table may not leave.
    - `notes`: With what missing cells are compared, and what an event is.
    """

    family: Family
    target: str
    formula: str
    records: int
    references: dict[str, str]
    coefficients: tuple[Coefficient, ...]
    refused: str | None
    private: bool
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients, one row per term."""
        frame = pd.DataFrame(self.coefficients, columns=list(Coefficient._fields))
        return frame.set_index("term")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "family": self.family.name,
            "target": self.target,
            "formula": self.formula,
            "records": self.records,
            "level": LEVEL,
            "effect": self.family.effect,
            "references": self.references,
            "notes": list(self.notes),
            "refused": self.refused,
            "private": self.private,
            "coefficients": [one._asdict() for one in self.coefficients],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"


def regression_table(proposal: Proposal, plan: Plan, asked: Asked | None) -> RegressionTable:
    """Return the table of a finished run of Newton's method on a table of records.

    `asked`: the last public value, with the last question and its answer.

    **Guarantee.** Post-processing of noised answers by public facts: the plan, the proposal and the
    last public value.
    """
    family, method, formula, bounds = parts_of(proposal)
    if asked is None:
        raise InputError(f"only a training by {NEWTON} has standard errors; use --algorithm newton")
    found = fit(plan, method, asked)
    refused = found.refused
    if refused is not None and found.hidden is not None:
        to_units, _ = of_coefficients(method, *in_units(formula, bounds, linear=family.linear))
        names = hidden_terms(to_units @ found.hidden, to_units, method, formula, bounds)
        refused += f"; least is known of {', '.join(names)}"
    return RegressionTable(
        family=family,
        target=bounds.target_name,
        formula=formula.text if formula.response else f"{bounds.target_name} ~ {formula.text}",
        records=sum(proposal.counts),
        references=references(formula),
        coefficients=()
        if refused is not None
        else tuple(_rows(found, method, formula, bounds, family)),
        refused=refused,
        private=math.isfinite(plan.certificate.epsilon),
        notes=notes_of(formula, method, bounds),
    )


def parts_of(proposal: Proposal) -> tuple[Family, Newton, Formula, Bounds]:
    """Return family, method, formula and bounds; `InputError` for a run without a table."""
    table, method = proposal.data.table, proposal.composition().algorithm
    features = proposal.data.feature_map
    family = next((one for one in FAMILIES.values() if one.loss == proposal.loss.name), None)
    if table is None or family is None or not isinstance(method, Newton):
        raise InputError(
            "a table of coefficients needs a table of records, one of the families "
            f"{', '.join(FAMILIES)}, and the method {NEWTON}"
        )
    if not isinstance(features, Formula):
        raise InputError("a table of coefficients needs a formula as features")
    size = method.size(features.columns)
    if sum(proposal.counts) <= size:
        raise InputError(
            f"{sum(proposal.counts)} records are too few for {size} coefficients; leave terms out"
        )
    return family, method, features, table.bounds


def is_regression(proposal: Proposal) -> bool:
    """Whether a run ends with a table of coefficients: it is one of `regression_request`.

    Standard errors are those of the unpenalised likelihood of independent rows, all of which count
    alike. Any other training by Newton's method ends with a model alone.
    """
    loss, data = proposal.loss, proposal.data
    family = next((one for one in FAMILIES.values() if one.loss == loss.name), None)
    if family is None or proposal.method.name != NEWTON or data.table is None:
        return False
    whole = family.clip_for(loss, proposal.budget.epsilon, data.classes)
    by_model = family.covariance != "dispersion" or not data.table.leave_out
    errors = ("robust", family.covariance) if by_model else ("robust",)
    return (
        isinstance(data.feature_map, Formula)
        and proposal.method.options["covariance"] in errors
        and (proposal.regulariser, proposal.constraint, proposal.structure) == (NONE, NONE, None)
        and (proposal.clip, proposal.class_weights) == (whole, None)
        and (proposal.evaluation, proposal.budget.rows_per_person) == (None, None)
    )


def notes_of(formula: Formula, method: Newton, bounds: Bounds) -> tuple[str, ...]:
    """Return with what missing cells are compared, what an event is, and which records count."""
    marked = {one.name for one in formula.inputs.variables if one.indicator}
    used = {factor.column for term in formula.terms for factor in term}
    notes = [
        f"{name}={MISSING} is compared with {name} = "
        f"{f'{fact.filled:g}' if fact.date is None else day_text(fact.filled, fact.date)}"
        for name, fact in bounds.columns.items()
        if name in used & marked and isinstance(fact, Numeric)
    ]
    response, loss = formula.response, method.problem.loss
    if response is not None and isinstance(loss, Survival):
        notes += [
            f"event: {response.event} = {formula.event_value}; at {loss.longest:g}, the end of the "
            "range, and beyond it records are censored",
            f"a record counts until its expected events add up to {loss.most:g}",
        ]
    return tuple(notes)


def references(formula: Formula) -> dict[str, str]:
    """Return the reference value of every category of a formula."""
    known = {one.name: one for one in formula.inputs.variables}
    return {
        factor.column: (
            known[factor.column].reference if factor.reference is None else factor.reference
        )
        or MISSING
        for term in formula.terms
        if len(term) == 1
        for factor in term
        if known[factor.column].values is not None
    }


def _rows(
    found: Fit, method: Newton, formula: Formula, bounds: Bounds, family: Family
) -> Iterator[Coefficient]:
    to_units, constant = of_coefficients(method, *in_units(formula, bounds, linear=family.linear))
    names = coefficient_names(method, formula, bounds)
    if isinstance(method.problem.loss, PiecewiseExponential):  # hazards per unit of time
        constant[[name.constant for name in names]] -= math.log(method.problem.loss.longest)
    estimates = to_units @ found.estimate + constant
    parts = (to_units @ part @ to_units.T for part in (found.by_sampling, found.by_noise))
    sampling, noise = (np.sqrt(np.maximum(np.diag(part), 0)) for part in parts)
    z = float(norm.isf((1 - LEVEL) / 2))
    for place in sorted(range(len(names)), key=lambda place: names[place].order):
        estimate, error = float(estimates[place]), math.hypot(sampling[place], noise[place])
        low, high = estimate - z * error, estimate + z * error
        p_value = 2 * float(norm.sf(abs(estimate) / error)) if error > 0 else None
        shown = family.effect is not None and not names[place].constant
        yield Coefficient(
            term=names[place].text,
            estimate=estimate,
            standard_error=error,
            low=low,
            high=high,
            p_value=p_value,
            by_sampling=float(sampling[place]),
            by_noise=float(noise[place]),
            effect=_exp(estimate) if shown else None,
            effect_low=_exp(low) if shown else None,
            effect_high=_exp(high) if shown else None,
            constant=names[place].constant,
        )


class Name(NamedTuple):
    """The name of a coefficient, and its place in the table: constants precede their terms."""

    text: str
    constant: bool
    order: tuple[int, bool, int]


def coefficient_names(method: Newton, formula: Formula, bounds: Bounds) -> tuple[Name, ...]:
    """Return the names of the coefficients in their order.

    Of a loss with several margins, those of a margin name the interval of time, or the label.
    """
    last, loss, layout = formula.columns - 1, method.problem.loss, method.asks[0].layout
    names = [INTERCEPT if place == last else name for place, name in enumerate(formula.effects)]
    if layout is None:
        layout = Layout((), tuple(range(last + 1)), (0,))
    several = loss.outputs is not None
    shared = [
        Name(names[place], False, (loss.outputs or 0, False, place)) for place in layout.shared
    ]
    separate = []
    for output in layout.outputs:
        of = output_name(loss, bounds, output) if several else ""
        for place in layout.separate:
            text = (
                f"{of}: {names[place]}"
                if several and layout.separate != (last,)
                else of or names[place]
            )
            separate.append(Name(text, place == last, (output, place != last, place)))
    return (*shared, *separate)


def output_name(loss: Loss, bounds: Bounds, output: int) -> str:
    """Return what a margin is about: an interval of time, or a label."""
    if isinstance(loss, Survival):
        ends = (0.0, *loss.cuts, loss.longest)
        return f"{ends[output]:g} to {ends[output + 1]:g}"
    labels = bounds.labels or ()
    return f"above {labels[output]}" if isinstance(loss, CumulativeLogistic) else labels[output]


def hidden_terms(
    hidden: Float[HostArray, "P _m"],
    to_units: Float[HostArray, "P P"],
    method: Newton,
    formula: Formula,
    bounds: Bounds,
) -> list[str]:
    """Return up to four coefficients that vary most in hidden directions, at least one.

    `hidden`: these directions, unit vectors of features, in the user's units, as `to_units`.
    """
    parts = np.sum(np.square(hidden), axis=1) / np.sum(np.square(to_units), axis=1)
    names = coefficient_names(method, formula, bounds)
    order = np.argsort(-parts)[:4]
    return [names[place].text for place in order if parts[place] >= max(parts) / 2]


def of_coefficients(
    method: Newton, to_units: Float[HostArray, "D D"], added: Float[HostArray, "D"]
) -> tuple[Float[HostArray, "P P"], Float[HostArray, "P"]]:
    """Return the maps of `in_units` for the coefficients that are estimated.

    Given ones enter the constants.
    """
    outputs = method.problem.loss.outputs
    shape = (len(added),) if outputs is None else (len(added), outputs)
    zeros = jnp.zeros(shape)
    given = np.asarray(method.first_public(zeros).model)
    layout = method.asks[0].layout
    if layout is None:
        return to_units, added
    columns = [
        layout.chosen(jnp.asarray(to_units @ np.asarray(layout.spread(one, zeros))))
        for one in jnp.eye(layout.size)
    ]
    offset = (added + (to_units @ given).T).T
    return np.array(columns).T, np.array(layout.chosen(jnp.asarray(offset)))


def _exp(value: float) -> float:
    return math.exp(min(max(value, -700.0), 700.0))


def in_units(
    formula: Formula, bounds: Bounds, *, linear: bool
) -> tuple[Float[HostArray, "D D"], Float[HostArray, "D"]]:
    """Return the matrix A and the vector a by which weights w become A w + a, in the user's units.

    They are those of `Formula.to_effects`. For a numeric target both are times half of its range,
    and a is its middle in the constant.
    """
    found, added = formula.to_effects(), np.zeros(formula.columns)
    if isinstance(bounds.target, Numeric) and linear:
        found *= bounds.half_range
        added[-1] = bounds.target.minimum + bounds.target.width / 2
    return found, added
