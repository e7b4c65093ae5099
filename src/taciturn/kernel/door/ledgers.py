"""The ledger of a run, as planned and as observed, and the test of the noise that was drawn.

Planners propose questions and noise; the kernel derives their cost from the questions and the
public facts alone, once when a run is planned and again before it is charged. After the run, the
ledger is derived from the records that the door kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Record
from taciturn.kernel.privacy import Adjacency, Certificate, Ledger, Leg, Mechanism, Terms, compose
from taciturn.kernel.privacy.drawn import noise_statistic, noise_test
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

    `step`: the step of the lattice of each answer and its noise; 0 for real numbers. Raises
    `InputError` for several questions if one has noise inside its objective.

    **Guarantee.** Sensitivities, rates, sizes of batches and the law of noise inside an objective
    are taken from the questions (`Oracle.bound`), and not from a planner.
    """
    laws = [oracle.noise.law(spec, adjacency) for oracle in oracles]
    if len(oracles) > 1 and any(law is not None for law in laws):
        raise InputError(
            "noise inside an objective is accounted for where it is the plan's only question; plan "
            "the other questions separately"
        )
    numbers = thin(kind)  # with length 1 if all rounds or questions are equal
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

    Raises `InputError` as `Oracle.check`; `loss` and `rho` are those of the method, or None.
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
    """Raise `PrivacyError` unless a certificate is that of a leg.

    The caller may add further conditions and the stamp of a reproduction.
    """
    # equal only if it has this leg, and states all of its conditions
    fresh = compose((leg,), terms).certificate()
    fresh = fresh.under(certificate.conditions, conditional=certificate.conditional)
    if fresh.stamped(reproduction=certificate.reproduction) != certificate:
        raise PrivacyError("the plan's certificate does not follow from its ledger; plan again")


def observed_ledger(planned: Ledger, records: Record) -> Ledger:
    """Return the ledger of the door's `records`, leaves `(T, E, A)`.

    Sensitivities and the law are those of `planned`: they depend on the questions, not on the door.
    """
    rate, batch = records.rate, records.batch
    scale = _agents_first(records.scale)
    exponent = _agents_first(records.exponent).astype(np.int64)
    return Ledger(
        _agents_first(records.kind),
        planned.sensitivity,
        scale,
        planned.mechanism,
        np.ones(()) if rate is None else _agents_first(rate),
        planned.inside,
        np.zeros(()) if batch is None else _agents_first(batch),
        step=np.where((scale > 0) & (planned.inside is None), np.ldexp(1.0, exponent), 0.0),
        values=planned.values,
    )


def tested(plan: Ledger, certificate: Certificate, records: Record) -> Record:
    """Return the records of a run, without the size of the noise, if the noise passes its test.

    `plan`: the planned ledger, equal to the observed one. `certificate`: that of the plan, whose
    delta pays for the test. Raises `PrivacyError` if the noise fails, or its size is missing.
    """
    test = noise_test(plan, epsilon=certificate.epsilon, delta=certificate.delta)
    if test is not None:
        if records.drawn is None:
            raise PrivacyError("the door did not record the noise it drew; nothing may be released")
        test.check(noise_statistic(plan, _agents_first(records.drawn)))
    return records._replace(drawn=None)


def _agents_first(values: Any) -> HostArray:
    return np.moveaxis(np.asarray(values), -1, 0)
