"""How far one unit moves an answer, and whether a question has a bound in its place."""

import math

from taciturn_verify.reading import Fields, demand


def bound_sensitivity(leg: Fields, answer: Fields, terms: Fields, m: int) -> float:
    """Return Δ of an answer of an agent with m records; that of the file if it is claimed."""
    question, found = answer.question, answer.sensitivity
    k = {"record": 1, "agent": m, "person": min(terms.rows_per_person, m)}[terms.unit]
    zero_out, laplace = terms.relation == "zero_out", leg.noise == "laplace"
    norm = math.sqrt(leg.values) if laplace else 1.0
    match question.kind:
        case "mean" | "perturbed":
            found = (1 if zero_out else 2) * norm * question.coefficient * question.row * (k / m)
            if question.kind == "mean":
                share = answer.batch / m if answer.batch else answer.rate
                found *= (1 + question.widened) / share / (question.curvature or 1)
        case "moments":
            row, target = question.row, question.target
            near = target <= math.sqrt(2) * row
            moved = math.sqrt(2) * (row**2 + target**2 / 2) if near else 2 * row * target
            found = norm * (row * math.hypot(row, target) if zero_out else moved) * (k / m)
        case "derivatives":
            slope = question.coefficient * question.row * (1 if zero_out else 2)
            bent = question.weight * question.row**2 * (1 if zero_out else math.sqrt(2))
            found = norm * math.hypot(slope, bent, question.squares) * (k / question.divisor)
        case "tally" | "counts" | "errors":
            rows, unit, s = question.rows_per_person, terms.unit, getattr(question, "offsets", 0)
            fits = not rows or unit != "person" or rows == terms.rows_per_person
            demand(fits, "a sum over persons needs as many places as the terms state")
            square = 3.0 if question.kind == "errors" else 2.0 - zero_out  # of the 2-norm
            square += (1.5 if zero_out else 2) * s if laplace else (1.5 - zero_out / 4) * s**2
            square *= getattr(question, "tables", 1)
            n = k if not rows else math.ceil(m / rows) if unit == "agent" else 1
            found = n * (square if laplace else math.sqrt(square))
        case "targets":
            c = k / question.steps if k % question.steps == 0 else min(k, question.targets)
            found = terms.beta * (c if laplace else math.sqrt(c))
        case "target sums":
            found = norm * question.row * (terms.beta * k + 2**-52 * m * (m + 2) * question.target)
    return float(found)


def check_answer(leg: Fields, answer: Fields, terms: Fields, m: int) -> None:
    """Refuse a question where no bound holds, or whose sensitivity differs."""
    kind, relation, sampled = answer.question.kind, terms.relation, answer.rate < 1 or answer.batch
    record, gaussian = terms.unit == "record", leg.noise == "gaussian"
    aimed = relation == "target_change" or kind not in ("targets", "target sums")
    demand(aimed, "targets need the relation target_change")
    inside = kind != "perturbed" or (record and gaussian and not sampled and not answer.step)
    demand(inside, "perturbed needs the unit record, Gaussian noise, no batch and no step")
    mean = kind == "claimed" or (kind == "mean" and not answer.question.curvature)
    drawn = {"zero_out": not answer.batch, "replace_one": gaussian}.get(relation, False)
    ruled = not sampled or (record and mean and drawn)
    demand(ruled, "batches need records, a plain mean, and replace_one or, without size, zero_out")
    demand(round(answer.batch / answer.rate) <= m, "batches need as many records")
    given, needed = answer.sensitivity, bound_sensitivity(leg, answer, terms, m)
    agrees = math.isclose(given, needed, rel_tol=1e-9)
    demand(agrees, f"the sensitivity of {kind} is {needed:.12g}, not {given:.12g}")


def bound_movement(leg: Fields, answer: Fields) -> float:
    """Return Δ, or on a lattice of step h: Δ + 2hv (4hv on Poisson batches); 0 if Δ = 0."""
    v = leg.values if leg.noise == "laplace" else math.sqrt(leg.values)
    steps = 4 if answer.rate < 1 and not answer.batch else 2
    return answer.sensitivity and float(answer.sensitivity + steps * answer.step * v)


def find_ratio(movement: float, scale: float) -> float:
    """Return movement/σ: 0 without movement, infinite without noise."""
    return 0.0 if movement == 0 else math.inf if scale == 0 else movement / scale
