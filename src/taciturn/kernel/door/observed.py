"""The ledger that a door's records amount to, and the test of the noise that it drew."""

from __future__ import annotations

from typing import Any

import numpy as np

from taciturn.errors import PrivacyError
from taciturn.kernel.door.door import Record
from taciturn.kernel.privacy import Certificate, Ledger
from taciturn.kernel.privacy.drawn import drawn_noise, noise_test
from taciturn.typing import HostArray


def observed_ledger(planned: Ledger, records: Record) -> Ledger:
    """Return the ledger that the door's records amount to.

    `planned`: supplies the sensitivities and the law, which are the oracles' and not the door's.
    `records`: leaves `(T, E, A)`.
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
    """Return the records of a run whose noise passes its test, without what was seen of the noise.

    `plan`: the ledger of the run, as it was planned; the observed one is equal to it.
    `certificate`: that of the plan, whose delta pays for the test. Raises `PrivacyError` if the
    noise does not pass, or the door did not say what it drew.
    """
    test = noise_test(plan, epsilon=certificate.epsilon, delta=certificate.delta)
    if test is not None:
        if records.drawn is None:
            raise PrivacyError("the door did not say what noise it drew; nothing may be released")
        test.check(drawn_noise(plan, _agents_first(records.drawn)))
    return records._replace(drawn=None)


def _agents_first(values: Any) -> HostArray:
    return np.moveaxis(np.asarray(values), -1, 0)
