"""The names of methods in papers: the method and the options that each stands for."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from taciturn.algorithms.methods import COUNTS, METHODS, Method
from taciturn.algorithms.options import Value
from taciturn.errors import InputError


class Published(NamedTuple):
    """A printed name: the method, the options it implies, and whether it is without privacy."""

    printed: str
    method: str
    options: Mapping[str, Value]
    quiet: bool = False


def _arm(printed: str, arm: str, law: str) -> Published:
    return Published(printed, "linearised-admm", {"arm": arm, "law": law})


_AS_PRINTED: Mapping[str, Value] = {"steps": "published"}
PUBLISHED = (
    Published("ADMM", "pvp", {}, quiet=True),
    Published("DPSGD", "dp-sgd", {}),
    Published("Primal variable perturbation", "pvp", {}),
    Published("Dual variable perturbation", "dvp", {}),
    _arm("ObjG", "objective", "gaussian"),
    _arm("ObjL", "objective", "laplace"),
    _arm("OutG", "output", "gaussian"),
    _arm("OutL", "output", "laplace"),
    Published("DP-SADMM", "sadmm", _AS_PRINTED),
    Published("DP-VRADMM", "vradmm", _AS_PRINTED),
    Published("STOC-ADMM", "sadmm", _AS_PRINTED, quiet=True),
    Published("SVRG-ADMM", "vradmm", _AS_PRINTED, quiet=True),
    Published("DP-EXTRA", "extra", {}),
    Published("PG-EXTRA", "extra", {}),
    Published("DP-NIDS", "nids", {}),
)
_BY_GOSSIP = "ic-admm is linearised ADMM by gossip, and exact steps are"
_PAPERS = "in the package taciturn-papers: --algorithm taciturn_papers.methods:"
# names without a method of the library: what to use
_ELSEWHERE = {
    "DP-RECAL": "as printed it is not private (the messages reveal the gradients exactly), so no "
    "plan or certificate exists for it; recal is the sound form, and the printed one is "
    "taciturn_papers.as_published.dp_recal, for reproductions and attacks",
    "DIGing": f"it is {_PAPERS}DIGing",
    "RWADMM": f"it is {_PAPERS}RWADMM",
    "DP-RWADMM": f"it is {_PAPERS}RWADMM",
    "R-ADMM": f"it reuses answers as MR-ADMM does, which is {_PAPERS}mr_admm",
    "MR-ADMM": f"it is {_PAPERS}mr_admm",
    "DP-MRADMM": f"it is {_PAPERS}mr_admm",
    "D-ADMM": f"{_BY_GOSSIP} {_PAPERS}gossip_admm",
    "I-ADMM": "recal and walkman are the methods that pass a token from agent to agent",
    "PG-ADMM": f"{_BY_GOSSIP} {_PAPERS}gossip_admm",
    "DP-LSSGD": "dp-sgd has no Laplacian smoothing; sadmm and vradmm have it (--smoothing)",
}


def _plain(name: str) -> str:
    """Return a name in lower case without hyphens, spaces and other signs."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


_NAMES = {_plain(one.printed): one for one in PUBLISHED}
_NONE_HERE = {_plain(name): why for name, why in _ELSEWHERE.items()}


def published_method(
    name: str, given: Mapping[str, Any], epsilon: float, methods: Mapping[str, Method] = METHODS
) -> tuple[str, dict[str, Any]]:
    """Return the method's name in `METHODS` and the options, of a name as a paper prints it.

    Case, hyphens and spaces do not matter. A name such as ObjL stands for a method with options,
    which are added to those `given`.

    - `epsilon`: The budget; names of methods without noise are for an infinite one only.
    - `methods`: The table, which may have methods of the user besides.

    Raises `InputError` for an unknown name, with those that resemble it; for a method that is not
    in the library, with what to use; and for an option that contradicts the name.
    """
    if name in {*methods, COUNTS} or ":" in name:
        return name, dict(given)
    plain = _plain(name)
    same = next((known for known in METHODS if _plain(known) == plain), None)
    if same is not None:
        return same, dict(given)
    found = _NAMES.get(plain)
    if found is None:
        raise InputError(f"unknown algorithm {name!r}{_instead(plain)}")
    if found.quiet and math.isfinite(epsilon):
        private = "pvp, dvp or dp-admm" if found.method == "pvp" else found.method
        raise InputError(
            f"{found.printed} is without privacy; ask for {private}, which adds noise, or for "
            "epsilon inf"
        )
    for option, value in found.options.items():
        if option in given and given[option] != value:
            raise InputError(
                f"{found.printed} is {found.method} with {option.replace('_', '-')} {value}, and "
                f"{given[option]} is given; leave one out"
            )
    return found.method, {**found.options, **given}


def _instead(plain: str) -> str:
    """Return what to use in place of a name that no method has."""
    if plain in _NONE_HERE:
        return f": {_NONE_HERE[plain]}"
    known = {_plain(one): one for one in (*METHODS, *_ELSEWHERE)}
    known |= {key: one.printed for key, one in _NAMES.items()}
    close = [known[key] for key in difflib.get_close_matches(plain, known, cutoff=0.7)]
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{hint or ';'} choose from {', '.join(METHODS)}"
