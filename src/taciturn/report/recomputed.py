"""What the certificate in a model file says, computed again from what stands beside it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from taciturn.errors import TaciturnError
from taciturn.models import Model
from taciturn.privacy import epsilon_of
from taciturn.proposal import Proposal

# by which rounding and the lattice of the noise may move epsilon
_ROUNDING, _LATTICE = 1e-6, 1e-3
_SENTENCE = re.compile(r"epsilon = (\d+(?:\.\d+)?)")


class Recomputed(NamedTuple):
    """An epsilon that was computed again from `what`, and why it `differs` from the stated one.

    `epsilon` is None where it cannot be computed; `differs` is empty where it supports the file.
    """

    what: str
    epsilon: float | None
    differs: str

    def line(self) -> str:
        """Return it as one line."""
        found = "" if self.epsilon is None else f": epsilon = {self.epsilon:.6g}"
        if not self.differs:
            return f"Recomputed from {self.what}{found}, as stated"
        return f"DIFFERS from what the file states: recomputed from {self.what}{found}; " + (
            f"{self.differs}. Do not rely on this certificate"
        )


def recomputed(model: Model, folder: Path | None) -> tuple[Recomputed, ...]:
    """Return the epsilon of a model's certificate, computed again in each way that is open.

    From mu and delta by the Gaussian curve; from the sentence that people read; from the ledger,
    which the proposal in the folder of the report, if given, is planned for anew. A
    certificate may state more than the ledger of the training: it covers an evaluation, or a
    choice, too. One that states less is wrong.
    """
    stated = model.certificate
    epsilon, delta = _number(stated.get("epsilon")), _number(stated.get("delta"))
    if epsilon is None or delta is None or not 0 < delta < 1:
        return (Recomputed("mu", None, "epsilon or delta is missing or out of range"),)
    found = _of_mu(stated, epsilon, delta)
    # what people read
    said = [float(number) for line in model.statement for number in _SENTENCE.findall(line)]
    if any(abs(number - epsilon) > 1.001e-4 for number in said):
        found.append(Recomputed("the values", epsilon, "its sentences give another epsilon"))
    if folder is not None:
        found += _of_ledger(folder, epsilon, delta)
    return tuple(found)


def _of_mu(stated: dict[str, Any], epsilon: float, delta: float) -> list[Recomputed]:
    mu = _number(stated.get("mu"))
    if mu is None:
        return []
    if not mu >= 0:
        return [Recomputed("mu", None, "mu is below 0")]
    again = epsilon_of(delta, mu)
    agents = [_number(one) for one in stated.get("per_agent_mu") or ()]
    if any(one is None or one > mu * (1 + _ROUNDING) for one in agents):
        return [Recomputed("mu", again, "the mu of an agent is larger")]
    less = epsilon < again * (1 - _ROUNDING)
    more = epsilon > again * (1 + _LATTICE) + _ROUNDING
    differs = f"the file states epsilon = {epsilon:.6g}" if less or more else ""
    return [Recomputed(f"mu = {mu:.6g} at delta = {delta:g}", again, differs)]


def _of_ledger(folder: Path, epsilon: float, delta: float) -> list[Recomputed]:
    try:
        proposal = Proposal.from_json((folder / "proposal.json").read_text(encoding="utf-8"))
        certificate = proposal.plan().certificate
    except (OSError, ValueError, TaciturnError):  # no proposal, or a method of the user's own
        return []
    again = certificate.epsilon
    differs = ""
    if certificate.delta > delta * (1 + _ROUNDING):
        differs = f"the proposal is at delta = {certificate.delta:g}, and the file at {delta:g}"
    elif epsilon < again * (1 - _ROUNDING):
        differs = f"the file states epsilon = {epsilon:.6g}"
    return [Recomputed("the ledger that proposal.json is planned to", again, differs)]


def _number(value: Any) -> float | None:
    if value == "infinity":
        return math.inf
    usable = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if usable and not math.isnan(value) else None
