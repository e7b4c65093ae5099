"""How much of a demand is hidden, as an operator says it: in MW, per cent, or per unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from taciturn import checks
from taciturn.errors import InputError
from taciturn_power.cases.case import Case
from taciturn_power.moment.asking import Hidden

_BETA = re.compile(r"\s*([-+.\deE]+|nan|[-+]?inf)\s*(MW|MVAr|%|pu|)\s*", re.IGNORECASE)
# what moves by beta at once, on a page
HIDES: Mapping[Hidden, str] = MappingProxyType(
    {
        "demand": "one demand, active or reactive, of one bus",
        "bus": "the active and the reactive demand of one bus",
        "zone": "all demands of one zone",
    }
)
# of the typical demand: below the first beta hides little, above the second noise is most
LITTLE, MUCH = 0.1, 2.0


def read_beta(text: str, *, base_mva: float, largest: str | None) -> float:
    """Return beta per unit: `10MW`, `5%` of the largest demand that is public, or `0.1` per unit.

    MW stands for MVAr too: the same number for active and reactive demand.

    Parameters
    ----------
    largest
        A public bound on every demand, `200MW` or per unit; needed for per cent. A share of a
        demand itself would make the noise depend on the demand.

    Raises
    ------
    InputError
        If the text is none of these, or the number is not above 0.

    Examples
    --------
    >>> [read_beta(text, base_mva=100, largest=None) for text in ("10MW", "0.1")]
    [0.1, 0.1]
    >>> read_beta("5 %", base_mva=100, largest="200 MW")
    0.1
    """
    number, unit = _parsed("beta", text)
    if unit == "%":
        if largest is None:
            raise InputError(
                f"beta is {text}, but of what is not said; add --largest-demand 200MW, a public "
                "bound on the demand of any bus (its own demand is private)"
            )
        bound = read_largest(largest, base_mva=base_mva)
        return checks.positive("beta", number / 100 * bound)
    return checks.positive("beta", _per_unit(number, unit, base_mva))


def read_largest(text: str, *, base_mva: float) -> float:
    """Return a public bound on every demand per unit; `InputError` if it is none."""
    value, of = _parsed("largest-demand", text)
    if of == "%":
        raise InputError(f"largest-demand is {text}; give it in MW or per unit")
    return checks.positive("largest-demand", _per_unit(value, of, base_mva))


def _parsed(option: str, text: str) -> tuple[float, str]:
    match = _BETA.fullmatch(text)
    try:
        number = float(match.group(1)) if match else None
    except ValueError:
        number = None
    if match is None or number is None:
        raise InputError(f"{option} is {text!r}; write 10MW, 5% or, per unit, 0.1")
    checks.positive(option, number)
    return number, match.group(2).lower()


def _per_unit(number: float, unit: str, base_mva: float) -> float:
    return number / base_mva if unit in {"mw", "mvar"} else number


def size_warning(case: Case, beta: float, *, bundled: bool) -> str | None:
    """Return a warning if beta (per unit) is small or huge beside a typical demand; else None.

    Notes
    -----
    **Guarantee.** The demand of a case that is not `bundled`, hence published, is not read: there
    the comparison is with the generating capacity per bus, which is public.
    """
    change = beta * case.base_mva
    if bundled:
        loads = np.abs(case.bus[:, 2])
        typical, name = float(np.median(loads[loads > 0])), "the median load"
    else:
        capacity = np.sum(np.clip(case.gen[case.gen[:, 7] > 0, 8], 0, None))
        typical, name = float(capacity / len(case.bus)), "the generating capacity per bus"
    if not 0 < typical < np.inf or LITTLE * typical <= change <= MUCH * typical:
        return None
    if change < LITTLE * typical:
        why = "a change of the rest of a demand is not hidden"
    else:
        why = "the noise will be larger than any demand"
    return f"beta is {change:.3g} MW beside {name} of {typical:.3g} MW: {why}"
