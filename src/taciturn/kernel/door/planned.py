"""The ledger of what is going to be asked, derived from the questions and the public facts alone.

Planners propose questions and noise; what they cost is derived here, once when a run is planned and
again before it is charged.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Adjacency, Certificate, Ledger, Leg, Mechanism, Terms, compose
from taciturn.kernel.privacy.ledger import thin
from taciturn.kernel.questions import Loss, Oracle
from taciturn.kernel.records import Spec
from taciturn.typing import HostArray


def planned_ledger(  # noqa: PLR0913 - what is asked, of whom, under which noise
    oracles: tuple[Oracle, ...],
    mechanism: Mechanism,
    spec: Spec,
    adjacency: Adjacency,
    *,
    kind: Int[HostArray, "A T E"],
    scale: Float[HostArray, "A T E"],
    step: Float[HostArray, "A T E"],
) -> Ledger:
    """Return the ledger of the questions of number `kind` under noise of these scales.

    `InputError` if noise inside an objective is not the only question's.

    `step`: That of the lattice on which each answer and its noise stand; 0 for real numbers.

    **Guarantee.** Sensitivities, rates, sizes of batches and the law of noise inside an objective
    are the questions' (`Oracle.bound`), whatever a planner says of them.
    """
    laws = [oracle.noise.law(spec, adjacency) for oracle in oracles]
    if len(oracles) > 1 and any(law is not None for law in laws):
        raise InputError(
            "noise inside an objective is accounted for where it is the plan's only question; plan "
            "the other questions separately"
        )
    numbers = thin(kind)  # of length 1 where rounds or questions are alike
    sensitivity = np.zeros((len(kind), *numbers.shape[1:]))
    for number, oracle in enumerate(oracles):
        bound = oracle.bound(spec, adjacency, norm=mechanism.norm).value
        sensitivity = np.where(numbers == number, bound, sensitivity)
    asked = np.maximum(numbers, 0)
    rates = np.array([oracle.sampling.rate for oracle in oracles])[asked]
    sizes = np.array([oracle.sampling.size or 0 for oracle in oracles])[asked]
    return Ledger(
        kind,
        np.broadcast_to(sensitivity, kind.shape),
        scale,
        mechanism,
        np.broadcast_to(rates, kind.shape),
        laws[0],
        np.broadcast_to(sizes, kind.shape),
        step=step,
        values=math.prod(oracles[0].answer_shape(spec.shape)),
    )


def check_ledger(  # noqa: PLR0913 - a ledger, and all that it follows from
    ledger: Ledger,
    oracles: tuple[Oracle, ...],
    mechanism: Mechanism,
    spec: Spec,
    terms: Terms,
    *,
    loss: Loss | None,
    rho: float | None,
) -> None:
    """Raise `PrivacyError` unless a ledger is that of these questions.

    `InputError` if one does not suit the method, the public facts or an accountant
    (`Oracle.check`).

    `loss`, `rho`: Those of the method; None where it does not say.
    """
    for oracle in oracles:
        Oracle.check(oracle, spec, terms.adjacency, norm=mechanism.norm, loss=loss, rho=rho)
    if type(ledger.mechanism) is not type(mechanism):
        raise PrivacyError(
            f"the program adds {type(mechanism).__name__} noise, the plan has "
            f"{type(ledger.mechanism).__name__}; plan again"
        )
    if len({oracle.answer_shape(spec.shape) for oracle in oracles}) > 1:
        raise PrivacyError("the program's answers differ in shape; plan again")
    noise = {"kind": ledger.kind, "scale": ledger.scale, "step": ledger.step}
    fresh = planned_ledger(oracles, mechanism, spec, terms.adjacency, **noise)
    if fresh != ledger:
        raise PrivacyError("the program's questions are not the planned ones; plan again")


def check_certificate(certificate: Certificate, leg: Leg, terms: Terms) -> None:
    """Raise `PrivacyError` unless a certificate is what a leg amounts to.

    Further conditions and the stamp of a seed are the caller's to state.
    """
    # equal only if it states what it is conditional on itself; its legs are compared, too
    fresh = compose((leg,), terms).certificate()
    fresh = fresh.under(certificate.conditions, conditional=certificate.conditional)
    if fresh.stamped(reproduction=certificate.reproduction) != certificate:
        raise PrivacyError("the plan's certificate is not what its ledger amounts to; plan again")
