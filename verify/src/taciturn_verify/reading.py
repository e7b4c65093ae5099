"""The structure of a certificate: whatever the specification does not allow is refused with a sentence."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = "taciturn certificate 1"
RELATIONS = ("replace_one", "zero_out", "bounded_change", "target_change")
UNITS = ("record", "agent", "person")
NOISES = ("gaussian", "laplace", "nonoise")

# the fields of every kind of question, required and optional; "+" is a positive number, "0" one that
# may be 0, "n" a whole number from 1, "s" a text
KINDS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "mean": ({"coefficient": "0", "row": "0"}, {"curvature": "+", "widened": "0"}),
    "perturbed": (
        {"coefficient": "0", "row": "0", "rho": "+", "smoothness": "0", "residual": "0", "output_noise": "+"},
        {"widened": "0"},
    ),
    "moments": ({"row": "0", "target": "0"}, {}),
    "tally": ({}, {"rows_per_person": "n"}),
    "errors": ({}, {"rows_per_person": "n"}),
    "targets": ({"steps": "n", "targets": "n"}, {}),
    "target sums": ({"row": "0", "target": "0"}, {}),
    "claimed": ({"by": "s"}, {}),
}


class Refused(ValueError):
    """The certificate does not follow, for the reason that the exception states."""


class Unreadable(ValueError):
    """The file is no certificate that could be judged."""


@dataclass(frozen=True)
class Terms:
    """What is protected: β is 0 where it is not said, K and M are 1 for the units record and agent."""

    relation: str
    unit: str
    delta: float
    dealt: bool
    beta: float
    rows: int
    agents: int


@dataclass(frozen=True)
class Question:
    """A kind of question and the numbers that its sensitivity follows from."""

    kind: str
    numbers: Mapping[str, float]

    def get(self, name: str, default: float = 0.0) -> float:
        """Return the number of that name, or the default."""
        return self.numbers.get(name, default)


@dataclass(frozen=True)
class Answer:
    """What some agents answer at one slot: (first, last) of their numbers, and the numbers they share."""

    agents: tuple[tuple[int, int], ...]
    question: Question
    sensitivity: float
    scale: float
    step: float
    rate: float
    batch: int

    @property
    def poisson(self) -> bool:
        """Return whether it is computed on a Poisson batch."""
        return self.rate < 1 and not self.batch


@dataclass(frozen=True)
class Slot:
    """Answers given together, and how often."""

    times: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Leg:
    """What was asked of one part; `choice` is the rate of a choice, or None; `colluders` of a sum, or None."""

    part: str
    agents: tuple[int, ...]
    choice: float | None = None
    records: tuple[int, ...] = ()
    colluders: int | None = None
    noise: str = "gaussian"
    values: int = 1
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True)
class Claim:
    """The figures of the file; None for a mu that is null."""

    epsilon: float
    mu: float | None
    agents_epsilon: tuple[float, ...]
    agents_mu: tuple[float | None, ...] | None
    rate: float
    reproduction: bool
    conditional: bool


@dataclass(frozen=True)
class Certificate:
    """All that figures are computed from, and the figures."""

    terms: Terms
    legs: tuple[Leg, ...]
    claim: Claim


def parse(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; a key given twice or a number that JSON has not is Unreadable."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise Unreadable(f"an object has a key twice among {', '.join(key for key, _ in items)}")
        return dict(items)

    def constant(name: str) -> float:
        raise Unreadable(f"{name} is no number of JSON")

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    if not isinstance(document, dict):
        raise Unreadable("the file holds no JSON object")
    return document


def read(document: Mapping[str, Any]) -> Certificate:
    """Return the certificate in a document, or raise Refused."""
    parts = ("format", "terms", "legs", "claim", "conditions", "statement")
    # the names of the fields that tell what was run are not specified, so any others may stand here
    _fields(document, "the certificate", parts, None)
    if document["format"] != FORMAT:
        raise Refused(f'format must be "{FORMAT}", not {document["format"]!r}')
    for sentence in _list(document["conditions"], "conditions"):
        _text(sentence, "conditions")
    _text(document["statement"], "statement")
    claim = _read_claim(document["claim"])
    legs = tuple(
        _read_leg(leg, f"legs[{i}]", len(claim.agents_epsilon))
        for i, leg in enumerate(_list(document["legs"], "legs"))
    )
    if not legs or len({leg.part for leg in legs}) < len(legs):
        raise Refused("legs must be at least one, and no two on the same part")
    return Certificate(_read_terms(document["terms"]), legs, claim)


def _read_terms(given: Any) -> Terms:
    relation = _one_of(_get(given, "terms", "relation"), "terms.relation", RELATIONS)
    unit = _one_of(_get(given, "terms", "unit"), "terms.unit", UNITS)
    needed = ["relation", "unit", "delta", "dealt"]
    needed += ["beta"] if relation in RELATIONS[2:] else []
    needed += ["rows_per_person", "agents_per_person"] if unit == "person" else []
    _fields(given, "terms", needed, ())
    return Terms(
        relation,
        unit,
        _number(given["delta"], "terms.delta", above=0, below=1),
        _boolean(given["dealt"], "terms.dealt"),
        _number(given.get("beta", 0), "terms.beta"),
        _whole(given.get("rows_per_person", 1), "terms.rows_per_person"),
        _whole(given.get("agents_per_person", 1), "terms.agents_per_person"),
    )


def _read_claim(given: Any) -> Claim:
    names = ("epsilon", "mu", "per_agent_epsilon", "per_agent_mu", "attacker_tpr", "reproduction", "conditional")
    _fields(given, "claim", names, ())
    epsilons = _list(given["per_agent_epsilon"], "claim.per_agent_epsilon")
    mus = given["per_agent_mu"]
    if not epsilons or (mus is not None and len(_list(mus, "claim.per_agent_mu")) != len(epsilons)):
        raise Refused("claim.per_agent_epsilon and per_agent_mu must have one entry for every agent")
    return Claim(
        _figure(given["epsilon"], "claim.epsilon"),
        None if given["mu"] is None else _figure(given["mu"], "claim.mu"),
        tuple(_figure(value, "claim.per_agent_epsilon") for value in epsilons),
        None if mus is None else tuple(None if v is None else _figure(v, "claim.per_agent_mu") for v in mus),
        _number(given["attacker_tpr"], "claim.attacker_tpr", most=1),
        _boolean(given["reproduction"], "claim.reproduction"),
        _boolean(given["conditional"], "claim.conditional"),
    )


def _read_leg(given: Any, where: str, count: int) -> Leg:
    if isinstance(given, dict) and "choice" in given:
        _fields(given, where, ("part", "choice"), ())
        _fields(given["choice"], f"{where}.choice", ("rate",), ())
        rate = _number(given["choice"]["rate"], f"{where}.choice.rate")
        return Leg(_text(given["part"], f"{where}.part"), tuple(range(count)), rate)
    names = ("part", "agents", "records", "observer", "noise", "values", "questions", "slots")
    _fields(given, where, names, ())
    agents = tuple(range(count))
    if given["agents"] != "all":
        numbers = [_whole(number, f"{where}.agents", 0) for number in _list(given["agents"], f"{where}.agents")]
        if not numbers or sorted(set(numbers)) != numbers or numbers[-1] >= count:
            raise Refused(f"{where}.agents must be numbers from 0 to {count - 1}, in order, none twice")
        agents = tuple(numbers)
    asked = [
        _read_question(question, f"{where}.questions[{i}]")
        for i, question in enumerate(_list(given["questions"], f"{where}.questions"))
    ]
    return Leg(
        _text(given["part"], f"{where}.part"),
        agents,
        None,
        _read_records(given["records"], f"{where}.records", len(agents)),
        _read_observer(given["observer"], f"{where}.observer"),
        _one_of(given["noise"], f"{where}.noise", NOISES),
        _whole(given["values"], f"{where}.values"),
        tuple(
            _read_slot(slot, f"{where}.slots[{i}]", asked, len(agents))
            for i, slot in enumerate(_list(given["slots"], f"{where}.slots"))
        ),
    )


def _read_records(given: Any, where: str, count: int) -> tuple[int, ...]:
    pairs = [_pair(pair, where, 1) for pair in _list(given, where)]
    if sum(agents for agents, _ in pairs) != count:  # before they are written out, for a count may be huge
        raise Refused(f"{where} must be those of {count} agents, not of {sum(agents for agents, _ in pairs)}")
    return tuple(records for agents, records in pairs for _ in range(agents))


def _read_observer(given: Any, where: str) -> int | None:
    name = _one_of(_get(given, where, "name"), f"{where}.name", ("messages", "sum"))
    _fields(given, where, ("name", "colluders") if name == "sum" else ("name",), ())
    return _whole(given["colluders"], f"{where}.colluders", 0) if name == "sum" else None


def _read_question(given: Any, where: str) -> Question:
    kind = _one_of(_get(given, where, "kind"), f"{where}.kind", tuple(KINDS))
    required, optional = KINDS[kind]
    _fields(given, where, ("kind", *required), optional)
    numbers: dict[str, float] = {}
    for name, sort in (required | optional if isinstance(required, dict) else {**required, **optional}).items():
        place = f"{where}.{name}"
        if sort == "s":
            _text(given[name], place)
        elif name in given and sort == "n":
            numbers[name] = _whole(given[name], place)
        elif name in given:
            numbers[name] = _number(given[name], place, above=0 if sort == "+" else None)
    return Question(kind, numbers)


def _read_slot(given: Any, where: str, questions: Sequence[Question], count: int) -> Slot:
    _fields(given, where, ("times", "answers"), ())
    answers = tuple(
        _read_answer(answer, f"{where}.answers[{i}]", questions, count)
        for i, answer in enumerate(_list(given["answers"], f"{where}.answers"))
    )
    ranges = sorted(pair for answer in answers for pair in answer.agents)
    if any(first <= last for (_, last), (first, _) in zip(ranges, ranges[1:], strict=False)):
        raise Refused(f"{where} names an agent in more than one answer")
    return Slot(_whole(given["times"], f"{where}.times"), answers)


def _read_answer(given: Any, where: str, questions: Sequence[Question], count: int) -> Answer:
    _fields(given, where, ("agents", "question", "sensitivity", "scale"), ("step", "rate", "batch"))
    ranges = [(0, count - 1)]
    if given["agents"] != "all":
        ranges = [_pair(pair, f"{where}.agents", 0) for pair in _list(given["agents"], f"{where}.agents")]
    ends = [end for pair in ranges for end in pair]
    ordered = all(first <= last for first, last in ranges) and sorted(set(ranges)) == ranges
    if not ends or not ordered or sorted(ends) != ends or ends[-1] >= count:
        raise Refused(f"{where}.agents must be ranges of the numbers from 0 to {count - 1}, in order")
    index = _whole(given["question"], f"{where}.question", 0)
    if index >= len(questions):
        raise Refused(f"{where}.question is {index}, but there are {len(questions)} questions")
    return Answer(
        tuple(ranges),
        questions[index],
        _number(given["sensitivity"], f"{where}.sensitivity"),
        _number(given["scale"], f"{where}.scale"),
        _number(given.get("step", 0), f"{where}.step"),
        _number(given.get("rate", 1), f"{where}.rate", above=0, most=1),
        _whole(given.get("batch", 0), f"{where}.batch", 0),
    )


def _get(given: Any, where: str, name: str) -> Any:
    if not isinstance(given, dict) or name not in given:
        raise Refused(f"{where} must be an object with the field {name}")
    return given[name]


def _fields(given: Any, where: str, required: Sequence[str], optional: Sequence[str] | Mapping[str, str] | None) -> None:
    for name in required:
        _get(given, where, name)
    unknown = [] if optional is None else [name for name in given if name not in (*required, *optional)]
    if unknown:
        raise Refused(f"{where} has the unknown field {unknown[0]}")


def _list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list):
        raise Refused(f"{where} must be a list, not {given!r:.40}")
    return given


def _pair(given: Any, where: str, least: int) -> tuple[int, int]:
    if not isinstance(given, list) or len(given) != 2:
        raise Refused(f"{where} must be pairs of numbers, not {given!r:.40}")
    return _whole(given[0], where, least), _whole(given[1], where, least)


def _text(given: Any, where: str) -> str:
    if not isinstance(given, str):
        raise Refused(f"{where} must be a text, not {given!r:.40}")
    return given


def _boolean(given: Any, where: str) -> bool:
    if not isinstance(given, bool):
        raise Refused(f"{where} must be true or false, not {given!r:.40}")
    return given


def _one_of(given: Any, where: str, names: Sequence[str]) -> str:
    if not isinstance(given, str) or given not in names:
        raise Refused(f"{where} must be one of {', '.join(names)}, not {given!r:.40}")
    return given


def _whole(given: Any, where: str, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 2**53:
        raise Refused(f"{where} must be a whole number from {least}, not {given!r:.40}")
    return given


def _number(given: Any, where: str, above: float | None = None, below: float = math.inf, most: float = math.inf) -> float:
    """Return a finite number of at least 0, or above a number; below one and at most one."""
    fits = isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= 1.7e308
    if not fits or not (given >= 0 if above is None else given > above) or not given < below or given > most:
        least = "at least 0" if above is None else f"above {above:g}"
        raise Refused(f"{where} must be a number {least} (and in its range), not {given!r:.40}")
    return float(given)


def _figure(given: Any, where: str) -> float:
    return math.inf if given == "infinity" else _number(given, where)
