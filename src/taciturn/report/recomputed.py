"""A certificate recomputed from the legs that its file states, by this library's accountant.

A file can be edited. So everything that follows from the legs (sensitivities, figures, sentences)
is computed as docs/reference/certificate.md specifies and compared with the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from taciturn import certificates, checks
from taciturn.errors import InputError, TaciturnError
from taciturn.kernel.privacy import (
    NO_QUESTION,
    REAL_NUMBERS,
    Adjacency,
    BoundedChange,
    Certificate,
    ChoiceLeg,
    Gaussian,
    Inside,
    Laplace,
    Ledger,
    Leg,
    Mechanism,
    NoNoise,
    Norm,
    Observer,
    Relation,
    ReplaceOne,
    Sum,
    TargetChange,
    Terms,
    ZeroOut,
    compose,
)
from taciturn.kernel.questions import (
    AllRecords,
    FixedSizeBatches,
    PoissonBatches,
    Sampling,
    bound_of,
)
from taciturn.kernel.records import Spec
from taciturn.models import Model, load_model, read_values
from taciturn.names import observer_named
from taciturn.report.save import numbered
from taciturn.training import Proposal
from taciturn.typing import HostArray

T = TypeVar("T")
# relative tolerances of figures with a closed form, and of an accountant's upper bounds
_EXACT, _BOUNDED = 1e-9, 1e-3
CLAIMED = (
    "epsilon", "mu", "attacker_tpr", "per_agent_epsilon", "per_agent_mu", "reproduction",
    "conditional",
)  # fmt: skip
_MOST_ENTRIES = 10**8
# the facts that a question of each kind states; a question mark makes one optional
_FACTS: Mapping[str, str] = MappingProxyType({
    "mean": "coefficient row curvature? widened?",
    "perturbed": "coefficient row rho smoothness residual output_noise",
    "moments": "row target", "derivatives": "coefficient row weight divisor squares?",
    "target sums": "row target", "targets": "steps targets",
    "tally": "rows_per_person? offsets?", "counts": "tables rows_per_person?",
    "errors": "rows_per_person?",
})  # fmt: skip
_COUNTS = ("steps", "targets", "tables", "rows_per_person")
_DIVISORS = ("curvature", "divisor", "rho", "output_noise")
_MECHANISMS: Mapping[str, Callable[[], Mechanism]] = MappingProxyType(
    {"gaussian": Gaussian, "laplace": Laplace, "nonoise": NoNoise}
)
# sentences that do not follow from the legs alone
_STATED = ("Observer: ", "Arithmetic: ", "Condition: ")
_OF_PARTS = "is in one of the parts of the records"
_NAME = "\0"  # placeholder for the name of a record or a target, which no leg states
_WRONG_KIND = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


class Recomputed(NamedTuple):
    """The sentences of a certificate: `lines` follow from its legs, `stated` do not."""

    lines: tuple[str, ...]
    stated: tuple[str, ...]


class Examined(NamedTuple):
    """The content of a file or a folder; `document` is that of a certificate file or of a model."""

    model: Model | None
    document: dict[str, Any] | None
    recomputed: Recomputed | None


def examine(file: Path) -> Examined:
    """Return the model and the recomputed certificate of a file; one that is missing is None.

    For a folder these are its newest certificate and its model. A model of an earlier version of
    the format states no legs, and has no document.

    Raises `InputError` if the file is neither, or `recomputed` finds a difference; for a folder
    also if it has no certificate, or `check_model` or `check_planned` fails.
    """
    model, document = None, None
    source = _newest(file) if file.is_dir() else file
    values = read_values(source, "model or certificate")
    if isinstance(values, dict) and values.get("format") == certificates.FORMAT:
        document, beside = values, file / "model.json"
        model = load_model(beside) if beside.exists() else None
    else:
        model = load_model(source)
        document = document_of(model)
    if document is None:
        return Examined(model, None, None)
    try:
        found = recomputed(document)
        if file.is_dir():
            if model is not None:
                check_model(model, document)
            check_planned(document, file / "proposal.json")
    except TaciturnError as error:
        raise InputError(
            f"{source} is not as a run writes it, so none of it is shown: {error}"
        ) from error
    except _WRONG_KIND as error:
        raise InputError(
            f"{source} is not a complete certificate: a part is missing or of the wrong type; see "
            "docs/reference/certificate.md"
        ) from error
    return Examined(model, document, found)


def _newest(folder: Path) -> Path:
    certificates = numbered(folder)
    if not certificates:
        raise InputError(f"{folder} holds no certificate; name the folder of a report, or a file")
    return certificates[max(certificates)]


def recomputed(document: Mapping[str, Any]) -> Recomputed:
    """Return the sentences of a certificate, computed from the `terms` and `legs` of its document.

    Raises `InputError`, which names the first difference, if a sensitivity, a figure, a condition
    or a sentence of the document does not follow from its legs; other errors if it is malformed.

    **Guarantee.** The figures are those of `compose` for the stated answers. No reader of a file
    can compute whether the run happened as stated.
    """
    computed = certificate_of(document)
    claim, stated = document["claim"], tuple(map(str, document["statement"]))
    for name in CLAIMED[:5]:
        _check_figure(name, claim[name], getattr(computed, name), exact=computed.mu is not None)
    conditions = [f"Condition: {condition}" for condition in document["conditions"]]
    if conditions != [line for line in stated if line.startswith("Condition: ")]:
        raise InputError("the conditions and the sentences that state them differ")
    free = tuple(line for line in stated if line.startswith(_STATED))
    read = [line for line in stated if not line.startswith(_STATED)]
    lines = [line for line in computed.lines() if not line.startswith(_STATED)]
    watched = [line for line in stated if line.startswith("Observer: ")]
    same = len(read) == len(lines) and all(map(_matches, read, lines))
    named = len(watched) == 1 and watched[0].startswith(f"Observer: {computed.observer}. Taken on")
    # the arithmetic is as the file states, but it must disclose answers without a lattice
    real = [line for line in computed.lines() if REAL_NUMBERS in line]
    named &= all(line in stated for line in real)
    if not same or not named or len(free) > len(conditions) + 2:
        raise InputError("its sentences are not those that its figures give")
    return Recomputed(tuple(read), free)


def _matches(line: str, computed: str) -> bool:
    """Return whether a sentence is the computed one, with any text in place of `_NAME`."""
    blank = re.escape(_NAME)
    pattern = re.escape(computed).replace(re.escape(f" ({_NAME})"), r"( \(.*\))?")
    return re.fullmatch(pattern.replace(blank, ".*"), line) is not None


def _check_figure(name: str, stated: Any, computed: Any, *, exact: bool) -> None:
    listed = isinstance(computed, tuple)
    pairs = zip(stated, computed, strict=True) if listed and stated else [(stated, computed)]
    for one, found in pairs:
        if one is None or found is None:
            same = one is found
        else:
            given, slack = _number(one), _EXACT if exact else _BOUNDED
            # never below the computed figure; above it at most by the gap between accountants
            same = given == found or -_EXACT <= (given - found) / max(1.0, abs(found)) <= slack
        if not same:
            what = f"{name} = {one}" if one is not None else f"no {name}"
            other = f"{found:.12g}" if found is not None else "none"
            raise InputError(f"it states {what}, and its legs give {other}")


def _check_conditions(document: Mapping[str, Any], follow: Sequence[str]) -> None:
    """Raise `InputError` if a condition of the legs is missing, or a condition lacks its leg."""
    conditions, claim = document["conditions"], document["claim"]
    missing = [condition for condition in follow if condition not in conditions]
    if missing:
        raise InputError(f"a condition is missing: {missing[0]}")
    spare = [one for one in conditions if one not in follow and _OF_PARTS in one]
    if spare:
        raise InputError(f"a leg is missing, about which it states that {spare[0]}")
    if claim["conditional"] and not conditions:
        raise InputError("it is conditional, and states no condition")


def certificate_of(document: Mapping[str, Any]) -> Certificate:
    """Return the certificate that follows from the `terms` and `legs` of a document.

    Figures are computed; conditions, `reproduction` and `conditional` are taken from the document.
    Raises `InputError` if a sensitivity is not that of its question, the legs do not compose
    (`taciturn.kernel.privacy.compose`), a condition is missing, or a ledger is too large.
    """
    terms, claim, stated = document["terms"], document["claim"], document["legs"]
    if len({leg["part"] for leg in stated}) < len(stated):
        raise InputError("two legs are about the same part of the records")
    adjacency, dealt = _adjacency(terms), _exactly(bool, terms["dealt"])
    legs = [_leg(leg, adjacency, dealt=dealt) for leg in stated]
    sums = [o for leg in legs if isinstance(leg, Leg) and isinstance(o := leg.observer, Sum)]
    if sums and document["observer"] != Sum.name:
        raise InputError("its legs are for an observer of sums, and it names another")
    observer = sums[0] if sums else observer_named(document["observer"])
    whole = compose(legs, Terms(math.inf, _number(terms["delta"]), adjacency, observer))
    total, seeded = whole.certificate(), _exactly(bool, claim["reproduction"])
    _check_conditions(document, total.conditions)
    conditional = _exactly(bool, claim["conditional"])
    if total.conditional and not conditional:
        raise InputError(
            "it is conditional on the claim of a question's author, and does not state so"
        )
    conditions = tuple(map(str, document["conditions"]))
    total = replace(total, conditions=conditions, conditional=conditional)
    return total.stamped(reproduction=seeded)


def _leg(leg: Mapping[str, Any], adjacency: Adjacency, *, dealt: bool) -> Leg | ChoiceLeg:
    """Return a leg of a document, with sensitivities checked against its questions."""
    if "choice" in leg:
        rate = checks.positive("rate", _number(leg["choice"]["rate"]))
        return ChoiceLeg(_exactly(str, leg["part"]), rate)
    for question in leg["questions"]:
        _check_question(question)
    slots, counts = leg["slots"], _whole(leg["records"])
    times = _whole([slot["times"] for slot in slots])
    checks.at_least("the number of times of a slot", int(np.min(times, initial=1)), 1)
    agents, answers = sum(counts[:, 0].tolist()), sum(times.tolist())
    if agents * max(1, answers) > _MOST_ENTRIES:
        raise InputError("there are too many answers to recompute here; use taciturn verify")
    # counts are run lengths: (number of agents, records of each)
    records, shape = np.repeat(*counts.T[::-1]), (agents, answers, 1)
    checks.at_least("the number of records of an agent", int(np.min(records)), 1)
    once = len(slots) == 1  # a single slot is stored once, however often it occurs
    turns = 1 if once else answers
    kind = np.full((len(records), turns, 1), NO_QUESTION)
    columns = {name: np.zeros(kind.shape) for name in ("sensitivity", "scale", "batch", "step")}
    columns["rate"] = np.ones(kind.shape)
    turn = 0
    for slot in slots:
        these = slice(turn, turn + (1 if once else slot["times"]))
        turn = these.stop
        for answer in slot["answers"]:
            agents = _agents(answer["agents"], len(records))
            if np.any(kind[agents, these] != NO_QUESTION) or len(set(agents)) < len(agents):
                raise InputError("an agent is named twice at one slot")
            kind[agents, these] = _whole(answer["question"])  # -1 would mean no question
            for name in columns.keys() & answer.keys():
                columns[name][agents, these] = _number(answer[name])
            _check_sensitivity(leg, answer, adjacency, records[agents])
    mechanism = _MECHANISMS[leg["noise"]]()
    whole = {name: np.broadcast_to(values, shape) for name, values in columns.items()}
    ledger = Ledger(
        np.broadcast_to(kind, shape),
        mechanism=mechanism,
        inside=_inside(leg["questions"], records),
        values=int(_whole(leg["values"])),
        **whole,
    )
    return Leg(
        _exactly(str, leg["part"]),
        None if leg["agents"] == "all" else tuple(_whole(leg["agents"]).tolist()),
        tuple(records.tolist()),
        ledger,
        tuple(leg["questions"]),
        _observer(leg["observer"]),
        adjacency,
        dealt=dealt,
    )


def _check_sensitivity(
    leg: Mapping[str, Any], answer: Mapping[str, Any], adjacency: Adjacency, records: HostArray
) -> None:
    """Raise `InputError` unless an answer of agents with these `records` has its sensitivity."""
    question = leg["questions"][answer["question"]]
    given, kind = _number(answer["sensitivity"]), question["kind"]
    sampling: Sampling = AllRecords()
    if answer.get("batch"):
        rate, batch = checks.fraction("rate", answer["rate"]), int(_whole(answer["batch"]))
        sampling = FixedSizeBatches(batch, round(batch / rate))
        if (sampling.records > records).any():
            raise InputError("a batch has more records than an agent")
    elif answer.get("rate", 1.0) != 1:
        sampling = PoissonBatches(answer["rate"])
    plain = kind == "claimed" or (kind == "mean" and "curvature" not in question)
    if sampling.rate != 1 and not plain:
        raise InputError(f"no bound is known for batches of a question of the kind {kind}")
    if kind == "claimed":
        return
    facts = {n: value if n == "kind" else _number(value) for n, value in question.items()}
    entries = leg["values"]
    if kind in ("moments", "derivatives"):  # D (D + 1) / 2 + D entries, or one more
        entries = (math.isqrt(9 + 8 * entries) - 3) // 2
    spec = Spec(tuple(records.tolist()), (entries,), 1.0, 1.0, 1.0)
    norm: Norm = "l1" if leg["noise"] == "laplace" else "l2"
    needed = bound_of(facts, spec, adjacency, norm, sampling).value[:, 0, 0]
    if not np.allclose(given, needed, rtol=_EXACT, atol=0):
        raise InputError(
            f"it states {given:.12g} for the sensitivity of a question of the kind {kind}, and "
            f"its facts give {float(np.max(needed)):.12g}"
        )


def _check_question(question: Mapping[str, Any]) -> None:
    """Raise unless a question states the facts of its kind, each within its range.

    Otherwise a file could invent a fact that divides the bound, or a claim without an author.
    """
    kind, stated = question["kind"], question.keys() - {"kind"}
    if kind == "claimed":
        authors = [_exactly(str, name) for name in question.get("by", ())]
        if stated != {"by"} or not authors or not all(authors):
            raise InputError("a bound is claimed, and its author is not named")
        return
    allowed = _FACTS[kind].split()
    needed = {name for name in allowed if not name.endswith("?")}
    if not needed <= stated <= {name.removesuffix("?") for name in allowed}:
        raise InputError(f"a question of the kind {kind} states {', '.join(sorted(stated))}")
    for name in stated:
        value = _number(question[name])
        if name in _COUNTS:
            checks.at_least(name, value, 1)
        elif name in _DIVISORS:
            checks.positive(name, value)
        elif name == "offsets":
            checks.fraction(name, value)
        else:
            checks.not_negative(name, value, allow_infinity=name == "coefficient")


def _inside(questions: Sequence[Mapping[str, Any]], records: HostArray) -> Inside | None:
    """Return the parameters of noise inside an objective; None for added noise."""
    inside = [question for question in questions if question["kind"] == "perturbed"]
    if not inside:
        return None
    if len(questions) > 1:
        raise InputError("noise inside an objective is stated together with other questions")
    one = inside[0]
    jacobian = np.log1p(one["smoothness"] / (records * one["rho"]))
    return Inside(jacobian, 2 * records * one["residual"] / one["output_noise"])


def _agents(named: Any, count: int) -> HostArray:
    """Return the numbers of the agents that give an answer."""
    if named == "all":
        return np.arange(count)
    return np.concatenate([np.arange(first, last + 1) for first, last in _whole(named)])


def _adjacency(terms: Mapping[str, Any]) -> Adjacency:
    """Return relation and unit of the terms; `_NAME` stands for the name of a record or target."""
    relations: Mapping[str, Callable[[], Relation]] = {
        "replace_one": ReplaceOne,
        "zero_out": ZeroOut,
        "bounded_change": lambda: BoundedChange(_number(terms["beta"]), _NAME),
        "target_change": lambda: TargetChange(_number(terms["beta"]), _NAME),
    }
    persons = {name: terms[name] for name in terms if name.endswith("_per_person")}
    return Adjacency(relations[terms["relation"]](), terms["unit"], **persons)


def _observer(values: Mapping[str, Any]) -> Observer:
    if values["name"] == Sum.name:
        return Sum(int(_whole(values["colluders"])))
    return observer_named(values["name"])


def document_of(model: Model) -> dict[str, Any] | None:
    """Return the certificate document of a model file; None if it states no legs."""
    values = model.certificate
    if "legs" not in values:  # written before models had them
        return None
    return {
        **{name: values.get(name) for name in ("terms", "legs", "conditions", "observer")},
        "claim": {name: values[name] for name in CLAIMED if name in values},
        "statement": model.statement,
    }


def check_model(model: Model, document: Mapping[str, Any]) -> None:
    """Raise `InputError` if the certificate of a model differs from a document."""
    claim, values = document["claim"], model.certificate
    stated = {name: document[name] for name in ("terms", "legs", "conditions")} | claim
    if document_of(model) is None:  # then the figures alone are compared
        stated = {**claim, "conditions": document["conditions"]}
    differ = [name for name, value in stated.items() if values.get(name) != value]
    if differ or list(model.statement) != document["statement"]:
        what = differ[0] if differ else "statement"
        raise InputError(f"model and certificate differ in their {what}")


def check_planned(document: Mapping[str, Any], proposal: Path) -> None:
    """Raise `InputError` if a document states less than the plan of a proposal.

    That is a smaller epsilon or delta, or fewer conditions or legs; an evaluation or a choice may
    add to the plan. Terms, observer and records must be those of the plan. A proposal that cannot
    be planned here is skipped.
    """
    try:
        read = Proposal.from_json(proposal.read_text(encoding="utf-8"))
        planned = read.plan().certificate
    except (OSError, ValueError, TaciturnError):  # another kind of proposal, or a custom method
        return
    epsilon, parts = _number(document["claim"]["epsilon"]), len(document["legs"])
    given, same = json.loads(json.dumps(certificates.document_of(planned))), []
    for one in (document, given):
        terms = {name: value for name, value in one["terms"].items() if name != "delta"}
        same.append((terms, one["observer"], one["legs"][0]["records"]))
    if same[0] != same[1]:
        raise InputError(f"terms, observer or records are not those that {proposal} is planned for")
    less = {
        "epsilon": epsilon < planned.epsilon * (1 - 1e-6),
        "delta": document["terms"]["delta"] < planned.delta,
        "conditions": not set(planned.conditions) <= set(document["conditions"]),
        "legs": parts < (2 if read.asks else 1),
    }
    for name, fewer in less.items():
        if fewer:
            raise InputError(f"the {name} are less than those that {proposal} is planned to")


def _number(value: Any) -> float:
    """Return a number of a file, where infinity is a string."""
    if value == "infinity":
        return math.inf
    if type(value) not in {int, float}:
        raise TypeError(value)
    return float(value)


def _exactly(kind: type[T], value: Any) -> T:
    """Return a value of a file if its type is exactly `kind`; else raise `TypeError`."""
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _whole(values: Any) -> HostArray:
    """Return whole numbers of at least 0 as an array; `TypeError` for anything else."""
    flat = np.array(values, dtype=object)
    if not all(type(value) is int and value >= 0 for value in flat.ravel().tolist()):
        raise TypeError(values)
    return flat.astype(np.int64)
