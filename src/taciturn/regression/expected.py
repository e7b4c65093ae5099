r"""What intervals a regression would have, from public facts alone.

Take a covariate that varies apart from the others, with standard deviation v as it is encoded in
[-1, 1], a category of two values being -1 or 1, and h, the mean second derivative of the loss at a
record. With n records and s the standard deviation of the noise of an entry of the last mean
gradient, its coefficient times v has the variance

.. math:: \frac{\varphi}{n h} + \Bigl( \frac{s}{h v} \Bigr)^2,

phi the dispersion: by sampling, and by noise. Two kinds of covariates: a number whose public range
is six of its standard deviations, v = 1/3, and a category of two values that are equally frequent,
v = 1. The table is refused if the least eigenvalue of the second derivatives, about h / 9, is not
above 2 t sqrt(P), t the noise of one of their entries and P the number of coefficients. If a share
p of the records has one of two values, the least eigenvalue of that column with the constant is
2 h p, which must be above; of one of many values it is about h p.

h is a guess, since nothing is read: for two labels p (1 - p) with p = `mean`, for counts the mean,
for survival times the share of records with an event; of two labels and events 1/2 if no guess is
given, of counts a tenth of the public range; 1 for numbers, whose residuals are guessed to have a
standard deviation of a tenth of the range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import norm

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems import CountLoss, Gamma, NegativeBinomial, SmoothedQuantile, Survival
from taciturn.regression.families import Family
from taciturn.regression.inference import noise_of_mean
from taciturn.regression.printed import aligned
from taciturn.regression.table import LEVEL, parts_of
from taciturn.training import Proposal

NUMBER, CATEGORY = 1 / 3, 1.0  # the standard deviations v
USUAL = 0.2  # an effect per standard deviation that studies are made to see
_SPREAD = 0.2  # of residuals, in half ranges
_RESIDUALS = "residuals have a standard deviation of a tenth of the range"


@dataclass(frozen=True)
class Expected:
    """Half-widths of 95 % intervals per standard deviation of a covariate.

    In the units of the linear predictor; of a response with a linear predictor in its own.

    - `rarest`: The least share of records with one of two values for which there is a table; None
      if there is none for any.
    - `assumed`: What was guessed of the response.
    """

    epsilon: float
    by_sampling: float
    of_number: float  # with the noise
    of_category: float
    refused: bool
    rarest: float | None
    assumed: str

    @property
    def blind(self) -> bool:
        """Whether an effect of the size `USUAL` is usually not seen where sampling shows it."""
        return self.refused or (self.by_sampling < USUAL <= self.of_number)


def expect(proposal: Proposal, mean: float | None = None) -> Expected:
    """Return the half-widths that a proposal would have; no record is read."""
    family, method, formula, bounds = parts_of(proposal)
    plan = proposal.plan()
    bend, dispersion, assumed = _second(proposal, family, mean)
    scales, records = noise_of_mean(plan), sum(proposal.counts)
    last = method.asks[-1]
    place = -2 if last.of_scores else -1
    entry = float(scales[place]) / method.asks[place].second
    noise = float(scales[-1])
    z = float(norm.isf((1 - LEVEL) / 2))
    unit = bounds.half_range if family.linear else 1.0
    sampling = math.sqrt(dispersion / (records * bend))
    number, category = (math.hypot(sampling, noise / (bend * v)) for v in (NUMBER, CATEGORY))
    least = 2 * entry * math.sqrt(method.size(formula.columns))
    return Expected(
        proposal.budget.epsilon,
        z * unit * sampling,
        z * unit * number,
        z * unit * category,
        bend * NUMBER**2 <= least,
        share if (share := least / (2 * bend)) < 1 / 2 else None,
        assumed,
    )


def _second(proposal: Proposal, family: Family, mean: float | None) -> tuple[float, float, str]:
    """Return h and phi, and what is assumed."""
    loss = proposal.problem.loss
    if mean is not None:
        checks.positive("the expected mean", mean)
    if family.task != "regression" or isinstance(loss, Survival):
        share = 0.5 if mean is None else checks.fraction("the expected mean", mean)
        percent = f"{100 * share:g} % of"
        if isinstance(loss, Survival):
            return share, 1.0, f"{percent} records have an event (--mean)"
        return share * (1 - share), 1.0, f"{percent} responses are the last label (--mean)"
    if isinstance(loss, Gamma):
        return 1.0, 1.0, "a variance of the square of the mean"
    if isinstance(loss, CountLoss):
        count = loss.highest / 10 if mean is None else mean
        most = loss.dispersion if isinstance(loss, NegativeBinomial) else 0.0
        return count / (1 + most * count), 1.0, f"a mean of {count:g} (--mean)"
    if mean is not None:
        raise InputError(f"the family {family.name} needs no expected mean; leave it out")
    if isinstance(loss, SmoothedQuantile):  # normal residuals: the density at their quantile
        at = norm.pdf(norm.ppf(loss.share)) / _SPREAD
        return float(at), loss.share * (1 - loss.share) / float(at), _RESIDUALS
    return 1.0, _SPREAD**2, _RESIDUALS


def expected_lines(found: list[Expected], records: int) -> list[str]:
    """Return the expectation for every epsilon as lines of text."""
    rows = [["epsilon", "by sampling", "a number", "a category", "rarest value", ""]]
    for one in found:
        why = "refused" if one.refused else ""
        rarest = "none" if one.rarest is None else f"{100 * one.rarest:.2g} %"
        rows.append([
            f"{one.epsilon:g}", *(f"{value:.3g}" for value in (
                one.by_sampling, one.of_number, one.of_category)), rarest, why,
        ])  # fmt: skip
    lines = [
        f"Expected half-widths of 95 % intervals, per standard deviation, {records:,} records:",
        *aligned(rows),
        "by sampling: without privacy; a number: its range is six standard deviations;",
        "a category: of two values, equally frequent; rarest value: where a smaller share of the",
        "records has a value of a category, expect no table, and merge it with another one.",
        f"Assumed: {found[0].assumed}, and small effects:",
        "stronger ones make intervals wider.",
        "Nothing was read, and nothing is charged.",
    ]
    blind = [f"{one.epsilon:g}" for one in found if one.blind]
    if blind:
        lines.append(
            f"At epsilon {', '.join(blind)} most effects of a usual size ({USUAL:g} per standard "
            "deviation) will not be seen: take more records, fewer terms, narrower bounds, or "
            "--observer sum."
        )
    return lines
