"""How far one unit moves an answer, and whether a question may stand where it stands."""

import math

from taciturn_verify.reading import Answer, Leg, Question, RefusedError, Terms


def bound_sensitivity(question: Question, answer: Answer, leg: Leg, terms: Terms, m: int) -> float:
    """Return Δ of an answer of an agent of m records; of a claimed question, what the file says."""
    k = {"record": 1, "agent": m, "person": min(terms.rows_per_person, m)}[terms.unit]
    zero_out, laplace = terms.relation == "zero_out", leg.noise == "laplace"
    norm = math.sqrt(leg.values) if laplace else 1.0

    def count() -> int:
        return _count(question, terms, k, m)

    row, target = question.get("row"), question.get("target")
    found = answer.sensitivity
    match question.kind:
        case "mean" | "perturbed":
            share = answer.batch / m if answer.batch else answer.rate
            moved = (1 if zero_out else 2) * norm * question.get("coefficient") * row * (k / m)
            found = moved * (1 + question.get("widened")) / share / question.get("curvature", 1.0)
        case "moments":
            near = target <= math.sqrt(2) * row
            moved = math.sqrt(2) * (row**2 + target**2 / 2) if near else 2 * row * target
            found = norm * (row * math.hypot(row, target) if zero_out else moved) * (k / m)
        case "tally":
            found = (1.0 if zero_out else 2.0 if laplace else math.sqrt(2)) * count()
        case "errors":
            found = (3.0 if laplace else math.sqrt(3)) * count()
        case "targets":
            steps = int(question.get("steps"))
            c = k // steps if k % steps == 0 else min(k, int(question.get("targets")))
            found = terms.beta * (c if laplace else math.sqrt(c))
        case "target sums":
            found = norm * row * (terms.beta * k + 2.0**-52 * m * (m + 2) * target)
    return found


def _count(question: Question, terms: Terms, k: int, m: int) -> int:
    """Return n, how many terms of a sum over records or persons change together."""
    rows = int(question.get("rows_per_person"))
    if not rows:
        return k
    if terms.unit == "person" and rows != terms.rows_per_person:
        raise RefusedError(
            f"a sum over persons of {rows} places needs rows_per_person {rows} in the terms"
        )
    return -(-m // rows) if terms.unit == "agent" else 1


def check_answer(answer: Answer, leg: Leg, terms: Terms, m: int) -> None:
    """Refuse a question that stands where no bound holds, or whose sensitivity is another."""
    kind, sampled = answer.question.kind, answer.poisson or answer.batch > 0
    if kind in ("targets", "target sums") and terms.relation != "target_change":
        raise RefusedError(f"{kind} needs the relation target_change, not {terms.relation}")
    inside = terms.unit == "record" and leg.noise == "gaussian" and not sampled and not answer.step
    if kind == "perturbed" and not inside:
        raise RefusedError(
            "noise inside an objective needs the unit record, Gaussian noise, no batch and no step"
        )
    if sampled and (kind != "mean" or answer.question.get("curvature") or terms.unit != "record"):
        raise RefusedError("batches need the unit record and a mean without curvature")
    exchange = terms.relation == "replace_one" and leg.noise == "gaussian"
    if (answer.batch and not exchange) or (
        sampled and not exchange and terms.relation != "zero_out"
    ):
        raise RefusedError("batches need replace_one with Gaussian noise, or zero_out and no size")
    if answer.batch and round(answer.batch / answer.rate) > m:
        raise RefusedError(
            f"a batch of {answer.batch} at the rate {answer.rate:g} needs more than {m} records"
        )
    needed = bound_sensitivity(answer.question, answer, leg, terms, m)
    if not math.isclose(answer.sensitivity, needed, rel_tol=1e-9):
        raise RefusedError(
            f"the sensitivity of {kind} with {m} records is {needed:.12g}, not "
            f"{answer.sensitivity:.12g}"
        )


def bound_movement(answer: Answer, leg: Leg) -> float:
    """Return Δ, or on a lattice of step h Δ + 2hv (4hv on Poisson batches); 0 where Δ is."""
    if leg.noise == "nonoise":
        return answer.sensitivity
    v = leg.values if leg.noise == "laplace" else math.sqrt(leg.values)
    return (
        answer.sensitivity + (4 if answer.poisson else 2) * answer.step * v
        if answer.sensitivity
        else 0.0
    )


def find_ratio(movement: float, scale: float) -> float:
    """Return movement/σ: 0 without movement, infinite without noise."""
    return 0.0 if movement == 0 else math.inf if scale == 0 else movement / scale
