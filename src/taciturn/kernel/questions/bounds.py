r"""The sensitivity bound of every kind of question, from its facts alone.

The facts are those that a certificate states about a question (docs/reference/certificate.md), so
they determine the scale of the noise. The function of each kind derives its bound. Throughout,
agent i has m_i records, a public number, of which k_i change together (`Adjacency.changed`): 1 for
the unit record, m_i for the unit agent, at most K for a person.

Bounds that a question enforces, and its rounding, are derived with the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    Norm,
    ReplaceOne,
    SensitivityBound,
    TargetChange,
    ZeroOut,
)
from taciturn.kernel.questions.sampling import AllRecords, Sampling
from taciturn.kernel.records import Spec
from taciturn.typing import HostArray

Facts: TypeAlias = Mapping[str, Any]
# Delta of every agent, and its derivation
Derived: TypeAlias = tuple[Float[HostArray, "A"], str]


def bound_of(
    facts: Facts,
    spec: Spec,
    adjacency: Adjacency,
    norm: Norm,
    sampling: Sampling = AllRecords(),  # noqa: B008 - frozen
) -> SensitivityBound:
    """Return how far one unit moves an answer of a question with these facts, `(A, 1, 1)`.

    Only the counts and the number of entries of the model are used from `spec`. Raises `InputError`
    for a kind without a rule.

    **Guarantee.** The bound holds at every query and on every batch: queries follow from earlier
    answers. The function of a kind derives it for an answer about all records. As the facts and the
    sampling require, it is then adjusted:

    *Batches.* A sum over a batch is divided by its expected size, q m_i or b, a public number (the
    size of a Poisson batch is private, and never used), so on any one batch the answer moves by
    Delta_i over the share of the batch. Under replace_one that is twice the bound of one term, as
    `Sampled` requires.

    *Minimisers* (`curvature` kappa). See `taciturn.kernel.questions.ProximalStep`: the minimiser of
    a kappa-strongly convex function moves by at most 1 / kappa of what its gradient moves by.

    *Rounding* (`widened` w). The computed answer moves by at most 1 + w of that.
    """
    derive = _KINDS.get(facts["kind"])
    if derive is None:
        raise InputError(
            f"no bound is known here of a question of the kind {facts['kind']!r}; define `bound`"
        )
    value, reason = derive(facts, spec, adjacency, norm)
    curvature, widened = facts.get("curvature"), facts.get("widened")
    if type(sampling) is not AllRecords:
        value = value / sampling.share(spec)
        reason += f"; divided by the expected share of the batch, {sampling.rate:g}"
    if curvature is not None:
        value = value / curvature
        reason += f"; divided by the strong convexity {curvature:g} of the step"
    if widened:
        value, reason = value * (1 + widened), f"{reason}; times 1 + {widened:.2g} for rounding"
    each = np.broadcast_to(value[:, None, None], (spec.agents, 1, 1))
    return SensitivityBound(each, norm, adjacency, reason)


def mean(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of (1/m_i) sum_j x_j c_j', |x_j| <= R and |c_j| <= C.

    With c = C R, and g_j = x_j c_j' of norm at most c, in Euclidean norm

        Delta_i = 2c/m_i (replace_one, record),   c/m_i (zero_out, record),
        Delta_i = 2c     (replace_one, agent),    c     (zero_out, agent),
        Delta_i = K times that of a record (person with K places, K <= m_i).

    In the 1-norm each is sqrt(D) times as large, D = `spec.dimension`.

    **Guarantee.** |x_j| <= R (`row`) is enforced when shards are packed, |c_j| <= C (`coefficient`)
    by the question, as a function of the record alone. Neighbouring data sets of one agent share
    all terms but one, so the mean moves by |g - g'|_2/m <= (|g|_2 + |g'|_2)/m <= 2c/m when a record
    is replaced, and by |g|_2/m <= c/m when its contribution is set to zero. If every record may
    change, the triangle inequality over all m terms gives m times that, and over the K places of a
    person K times; a place that is filled or emptied is one whose contribution is set to zero,
    within the bound of a replaced one. A bounded change of a record, or of its target, is a special
    case of replacing it, so it has the same bound (loose when beta is small: a Lipschitz argument
    would be sharper). For the 1-norm, |v|_1 <= sqrt(D) |v|_2 by Cauchy and Schwarz. The bound holds
    at every query, so it holds for queries chosen after earlier answers.

    *Inside an objective* (kind `perturbed`). Noise is added to the gradient, whose bound this is.
    """
    factor, size = 2.0, "2c"
    change = "one contribution g becomes g', |g - g'| <= |g| + |g'| <= 2c"
    if isinstance(adjacency.relation, ZeroOut):
        factor, size = 1.0, "c"
        change = "one contribution of norm at most c is set to zero"
    elif not isinstance(adjacency.relation, ReplaceOne):
        change += " (a bounded change is a special case of replacing)"
    stretch, root = 1.0, ""
    if norm == "l1":
        stretch = math.sqrt(spec.dimension)
        root = ", times sqrt(dimension) since |v|_1 <= sqrt(D) |v|_2"
    share, text = _share(spec, adjacency)
    reason = f"mean of m_i gradients of norm at most c; {change}: {size}{text}{root}"
    return factor * stretch * (facts["row"] * facts["coefficient"]) * share, reason


def moments(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of the mean of m_i pairs (xx', xy), |x| <= R and |y| <= Y.

    **Guarantee.** Replacing (x, y) by (z, w) moves the vector by 1/m_i times the square root of

        |xx' - zz'|^2 + |xy - zw|^2 = |x|^4 + |z|^4 - 2 c^2 + |x|^2 y^2 + |z|^2 w^2 - 2 y w c,

    with c = x'z. By Cauchy and Schwarz the last three terms are a convex quadratic form in (y, w),
    hence largest at corners y, w = +-Y; the sign of y w can be absorbed in z, so take y w = -Y^2.
    For fixed c what remains grows with |x| and |z|, which also allow more values of c, so that |x|
    = |z| = R: it is 2 R^4 + 2 R^2 Y^2 - 2 c^2 + 2 Y^2 c with |c| <= R^2, largest at c = min(R^2,
    Y^2 / 2). Hence, exactly (and attained if D >= 2),

        Delta_i = sqrt(2) (R^2 + Y^2 / 2) / m_i   if Y <= sqrt(2) R,     2 R Y / m_i   otherwise,

    where bounding the two parts separately would give sqrt(2 R^4 + 4 R^2 Y^2) / m_i, 15 % more at R
    = Y. Zeroing a record moves it by |(xx', xy)| / m_i <= R sqrt(R^2 + Y^2) / m_i. If several
    records may change, it is k_i times that, by the triangle inequality. A bounded change is a
    special case of replacing; so is a place that is filled or emptied, since R sqrt(R^2 + Y^2) is
    the smaller bound. In the 1-norm each is multiplied by the square root of the number of entries.
    """
    r, y = facts["row"], facts["target"]
    if isinstance(adjacency.relation, ZeroOut):
        change, why = r * math.hypot(r, y), "set to zero: R sqrt(R^2 + Y^2)"
    elif y <= math.sqrt(2) * r:
        change, why = math.sqrt(2) * (r**2 + y**2 / 2), "replaced: sqrt(2) (R^2 + Y^2/2)"
    else:
        change, why = 2 * r * y, "replaced: 2 R Y (Y > sqrt(2) R)"
    reason = f"mean of m_i pairs (xx', xy) with |x| <= R, |y| <= Y; one is {why}"
    if norm == "l1":
        features = spec.shape[0]
        change *= math.sqrt(features * (features + 1) // 2 + features)
        reason += ", times the square root of the number of entries"
    share, text = _share(spec, adjacency)
    return change * share, reason + text


def derivatives(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of (1/N) sum_j (H, cx, q): |cx| <= C R, |H| <= W R^2 and q <= Q.

    **Guarantee.** H = vv' is positive semi-definite with |v|^2 <= W R^2 (`weight` W), and 0 <= q <=
    Q (`squares`, 0 if there is none). Replacing the term (vv', g, q) by (uu', f, r) moves the sum
    by the root of

        |vv' - uu'|^2 + |g - f|^2 + (q - r)^2 <= 2 W^2 R^4 + 4 C^2 R^2 + Q^2,

    since |vv' - uu'|^2 = |v|^4 + |u|^4 - 2 (v'u)^2. Setting it to zero moves it by at most the root
    of W^2 R^4 + C^2 R^2 + Q^2. A bounded change is a special case of replacing. If several records
    may change, it is k_i times that, by the triangle inequality, and in the 1-norm the square root
    of the number of entries times that. Each holds at every query.
    """
    first, bent = facts["coefficient"] * facts["row"], facts["weight"] * facts["row"] ** 2
    last, zero_out = facts.get("squares", 0.0), isinstance(adjacency.relation, ZeroOut)
    pair = (1.0, 1.0) if zero_out else (math.sqrt(2), 2.0)
    change = math.hypot(pair[0] * bent, pair[1] * first, last)
    why = "set to zero: the root of" if zero_out else "replaced: the root of 2"
    reason = f"sum of terms (H, cx) over N, |H| <= W R^2 and |cx| <= C R; one is {why} (W R^2)^2 "
    reason += f"+ {'' if zero_out else '4 '}(C R)^2{' + Q^2' if last else ''}"
    if norm == "l1":
        features = spec.shape[0]
        change *= math.sqrt(features * (features + 3) // 2 + (last > 0))
        reason += ", times the square root of the number of entries"
    reason += _together(adjacency).replace("targets", "records")
    return change * adjacency.changed(spec.counts) / facts["divisor"], reason


def _share(spec: Spec, adjacency: Adjacency) -> Derived:
    """Return the share of one unit in a mean, k_i / m_i, and its derivation."""
    share = adjacency.changed(spec.counts) / np.asarray(spec.counts, dtype=np.float64)
    rows = adjacency.rows_per_person
    person = f" * {rows}/m_i (the {rows} places of a person together)"
    texts = {"record": "/m_i", "agent": " (all m_i terms of the mean)", "person": person}
    return share, texts[adjacency.unit]


def sums(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of sums of indicators (`tally`, `counts`) or of [0, 1]^3 (`errors`).

    **Guarantee.** A term is a function of its record and the public model alone. *Tally:* a term is
    the indicator e_c of one cell; replacing it moves the sum by e_c - e_c', of norm sqrt(2) (2 in
    the 1-norm), setting it to zero by 1. Separate counts of labels, predictions and bins would move
    several indicators at once. *Offsets:* with the weight s a term is (e_c, s t e_c, s r), |t| <=
    1/2 and 0 <= r <= 1. Its square is at most 1 + s^2 / 4 + s^2. Two terms in different cells
    differ by 2 + s^2 (t^2 + t'^2) + s^2 (r - r')^2 <= 2 + s^2 / 2 + s^2; two in one cell by
    s^2 (t - t')^2 + s^2 (r - r')^2 <= 2 s^2, which is less. In the 1-norm the same are 1 + s / 2 +
    s and 2 + s + s. *Errors:* a vector of [0, 1]^3 moves, replaced or set to zero, by at
    most sqrt(3) (3), which a change from 0 to 1 attains. *Counts:* a term has an indicator of one
    cell in each of V blocks (`tables`); its square, and that of a change, add up over the blocks:
    sqrt(2 V) (2 V), or sqrt(V) (V) if it is set to zero, attained where all cells differ. If
    several terms may change, it is as many times that, by the
    triangle inequality.

    *Persons.* With `rows_per_person` a person adds the mean of these vectors over its rows: weights
    p >= 0 with sum at most 1, so a point of the convex hull of all terms and 0. The distance of two
    points of a hull is at most that of two of its corners, and terms are no longer than the bound
    of their differences. So all rows of a person together move the answer no further than one
    record does. One row of several moves it by less.
    """
    errors, l1 = facts["kind"] == "errors", norm == "l1"
    zero_out = isinstance(adjacency.relation, ZeroOut)
    each, terms = facts.get("rows_per_person"), adjacency.changed(spec.counts)
    square: float = 3 if errors else 1 if zero_out else 2  # of the Euclidean norm of a change
    if (weight := facts.get("offsets")) is not None:
        square += (1.5 + (not zero_out) / 2) * weight if l1 else (1.5 - zero_out / 4) * weight**2
    square *= (tables := facts.get("tables", 1))
    of, what = "m_i ", "indicators of one cell each"
    if each is not None:
        if adjacency.unit == "person" and adjacency.rows_per_person != each:
            raise InputError(
                f"a sum over persons with {each} places each has no bound for persons with "
                f"{adjacency.rows_per_person}; give both the same number"
            )
        persons = tuple(math.ceil(count / each) for count in spec.counts)
        terms = np.minimum(persons, np.inf if adjacency.unit == "agent" else 1.0)
        of, what = "the persons' mean ", "indicators of their rows' cells"
    if errors:
        what = "vectors (t, t^2, t^4) with 0 <= t <= 1"
    if tables > 1:
        what += f" of {tables} tables"
    if weight is not None:
        what = f"indicators of one cell each, and {weight:g} times offsets within it"
    size = f"{square:g}" if l1 or square == 1 else f"sqrt({square:g})"
    changes = "is set to zero" if zero_out else "changes"
    reason = f"sum of {of}{what}; one of them {changes}: {size}"
    if adjacency.unit == "agent" or np.max(terms) > 1:
        reason += ", times the number of terms that change together"
    return (float(square) if l1 else math.sqrt(square)) * terms, reason


def targets(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of one number for each target, +-y_j, at all steps or at one of S.

    **Guarantee.** If y_k moves by at most beta, coordinate k of the answer moves by as much and no
    other does, whatever the query: beta in either norm; if c targets move, sqrt(c) beta in
    Euclidean norm and c beta in the 1-norm. The bounds are attained. *Steps:* units have equally
    many targets in each of S blocks of `targets` places, so c = k_i / S coordinates move in the
    answer about one block; changes at other steps are in the answers about those, which have their
    own ledger entries. For a unit that cannot be laid out so (k_i is not a multiple of S), all of
    its targets are taken to be in the requested block.
    """
    steps, changed = facts["steps"], adjacency.changed(spec.counts)
    moved = np.where(changed % steps == 0, changed / steps, np.minimum(changed, facts["targets"]))
    reason = "one target moves by beta: so does one coordinate of the answer"
    value = _beta(adjacency) * (moved if norm == "l1" else np.sqrt(moved))
    return value, reason + _together(adjacency)


def target_sums(facts: Facts, spec: Spec, adjacency: Adjacency, norm: Norm) -> Derived:
    """Return the bound of sum_j x_j y_j, |x_j| <= R and |y_j| <= Y, with public features.

    **Guarantee.** If y_k moves by at most beta, the answer moves by beta |x_k|: at most beta R in
    Euclidean norm, beta R sqrt(D) in the 1-norm; k_i times that if several move. The longest row
    attains it. (For the sum of squares without the half, Ryu and Kim's (6.1), both gradient and
    bound are twice that; a published 2 beta leaves out |x_k|.) The sum over m_i targets is wrong by
    at most (m_i + 2) 2^-53 m_i R Y: twice that is in the bound.
    """
    root, tail = (math.sqrt(spec.dimension), " sqrt(D)") if norm == "l1" else (1.0, "")
    counts, longest = np.asarray(spec.counts, np.float64), root * facts["row"]
    rounding = 2.0**-52 * (counts + 2) * (counts * facts["row"] * facts["target"] * root)
    reason = f"one target moves by beta: beta |x_k| <= beta R{tail}{_together(adjacency)}"
    value = _beta(adjacency) * longest * adjacency.changed(spec.counts) + rounding
    return value, f"{reason}; and rounding, 2^-52 m (m + 2) R Y"


def _beta(adjacency: Adjacency) -> float:
    """Return how far one target moves; infinity where more than targets may."""
    return adjacency.relation.beta if isinstance(adjacency.relation, TargetChange) else math.inf


def _together(adjacency: Adjacency) -> str:
    whose = {"record": "", "person": "a person", "agent": "an agent"}[adjacency.unit]
    return f", for all targets of {whose} at once" if whose else ""


_KINDS: Mapping[str, Callable[..., Derived]] = MappingProxyType({
    "mean": mean, "perturbed": mean, "moments": moments, "derivatives": derivatives, "tally": sums,
    "counts": sums, "errors": sums, "targets": targets, "target sums": target_sums,
})  # fmt: skip
