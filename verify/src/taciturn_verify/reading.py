"""The structure of a certificate: what is not specified is refused with a sentence."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NoReturn

RELATIONS = ("replace_one", "zero_out", "bounded_change", "target_change")
UNITS = ("record", "agent", "person")
NOISES = ("gaussian", "laplace", "nonoise")

Reader = Callable[[Any, str], Any]  # from what stands at a place, and the name of the place
Fields = Mapping[str, Reader]


class RefusedError(ValueError):
    """The certificate does not follow, for the reason that the exception states."""


class UnreadableError(ValueError):
    """The file is no certificate that could be judged."""


@dataclass(frozen=True)
class Terms:
    """What is protected; β is 0 and K and M are 1 where they are not said."""

    relation: str
    unit: str
    delta: float
    dealt: bool
    beta: float
    rows_per_person: int
    agents_per_person: int


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
    """What some agents answer at one slot: (first, last) of their numbers, and what they share."""

    agents: tuple[tuple[int, int], ...]
    question: Question
    sensitivity: float
    scale: float
    step: float = 0.0
    rate: float = 1.0
    batch: int = 0

    @property
    def poisson(self) -> bool:
        """Return whether it is computed on a Poisson batch."""
        return self.rate < 1 and not self.batch

    def list_agents(self) -> Iterator[int]:
        """Return the numbers of its agents."""
        return chain.from_iterable(range(first, last + 1) for first, last in self.agents)


@dataclass(frozen=True)
class Slot:
    """Answers given together, and how often."""

    times: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Leg:
    """What was asked of one part; the rate of a choice and the colluders of a sum, or None."""

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
    agents_mu: tuple[float, ...] | None
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
    """Return the JSON object in a text, or raise UnreadableError."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise UnreadableError(
                f"an object has a key twice among {', '.join(key for key, _ in items)}"
            )
        return dict(items)

    def refuse(name: str) -> float:
        raise UnreadableError(f"{name} is no number of JSON")

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(document, dict):
        raise UnreadableError("the file holds no JSON object")
    return document


def _refuse(where: str, needed: str, given: Any) -> NoReturn:
    raise RefusedError(f"{where} must be {needed}, not {given!r:.60}")


def _object(
    given: Any, where: str, fields: Fields, optional: Fields, free: bool = False
) -> dict[str, Any]:
    """Return the fields of an object as their readers return them; optional ones where given."""
    if not isinstance(given, dict):
        _refuse(where, "an object", given)
    for name in fields:
        if name not in given:
            raise RefusedError(f"{where} lacks the field {name}")
    for name in given:
        if name not in fields and name not in optional and not free:
            raise RefusedError(f"{where} has the unknown field {name}")
    readers = {**fields, **optional}
    return {
        name: read(given[name], f"{where}.{name}")
        for name, read in readers.items()
        if name in given
    }


def _list(reader: Reader) -> Reader:
    def read(given: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(given, list):
            _refuse(where, "a list", given)
        return tuple(reader(item, f"{where}[{i}]") for i, item in enumerate(given))

    return read


def _one_of(*names: str) -> Reader:
    def read(given: Any, where: str) -> str:
        if not isinstance(given, str) or given not in names:
            _refuse(where, f"one of {', '.join(names)}", given)
        return str(given)

    return read


def _text(given: Any, where: str) -> str:
    return given if isinstance(given, str) else _refuse(where, "a text", given)


def _boolean(given: Any, where: str) -> bool:
    return given if isinstance(given, bool) else _refuse(where, "true or false", given)


def _whole(given: Any, where: str, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 2**53:
        _refuse(where, f"a whole number from {least}", given)
    return given


def _natural(given: Any, where: str) -> int:
    return _whole(given, where, 0)


def _number(given: Any, where: str) -> float:
    # the comparison is false for NaN, and for whole numbers that no float holds
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1.7e308:
        _refuse(where, "a finite number of at least 0", given)
    return float(given)


def _positive(given: Any, where: str) -> float:
    return _number(given, where) or _refuse(where, "above 0", given)


def _share(given: Any, where: str) -> float:
    return (
        number if (number := _positive(given, where)) <= 1 else _refuse(where, "at most 1", given)
    )


def _level(given: Any, where: str) -> float:
    return share if (share := _share(given, where)) < 1 else _refuse(where, "below 1", given)


def _figure(given: Any, where: str) -> float:
    return math.inf if given == "infinity" else _number(given, where)


def _maybe(reader: Reader) -> Reader:
    return lambda given, where: None if given is None else reader(given, where)


def _all_or(reader: Reader) -> Reader:
    return lambda given, where: None if given == "all" else reader(given, where)


def _pair(reader: Reader) -> Reader:
    def read(given: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(given, list) or len(given) != 2:
            _refuse(where, "a pair of numbers", given)
        return tuple(reader(item, where) for item in given)

    return read


# the fields of every kind of question, required and optional
KINDS: Mapping[str, tuple[Fields, Fields]] = {
    "mean": (
        {"coefficient": _number, "row": _number},
        {"curvature": _positive, "widened": _number},
    ),
    "perturbed": (
        {
            **dict.fromkeys(("coefficient", "row", "smoothness", "residual"), _number),
            **dict.fromkeys(("rho", "output_noise"), _positive),
        },
        {},
    ),
    "moments": ({"row": _number, "target": _number}, {}),
    "tally": ({}, {"rows_per_person": _whole}),
    "errors": ({}, {"rows_per_person": _whole}),
    "targets": ({"steps": _whole, "targets": _whole}, {}),
    "target sums": ({"row": _number, "target": _number}, {}),
    "claimed": ({"by": _text}, {}),
}


def read(document: Mapping[str, Any]) -> Certificate:
    """Return the certificate in a document, or raise RefusedError."""
    fields = {
        "format": _one_of("taciturn certificate 1"),
        "terms": _read_terms,
        "claim": _read_claim,
        "conditions": _list(_text),
        "statement": _list(_text),
        "legs": _list(lambda given, _: given),
    }
    # the names of the fields that tell what was run are not specified, so any others may stand here
    found = _object(document, "certificate", fields, {}, free=True)
    count = len(found["claim"].agents_epsilon)
    legs = tuple(_read_leg(leg, f"legs[{i}]", count) for i, leg in enumerate(found["legs"]))
    if not legs or len({leg.part for leg in legs}) < len(legs):
        raise RefusedError("legs must be at least one, and no two on the same part")
    return Certificate(found["terms"], legs, found["claim"])


def _read_terms(given: Any, where: str) -> Terms:
    fields = {
        "relation": _one_of(*RELATIONS),
        "unit": _one_of(*UNITS),
        "delta": _level,
        "dealt": _boolean,
    }
    plain = _object(given, where, fields, {}, free=True)
    if plain["relation"] in RELATIONS[2:]:
        fields["beta"] = _number
    if plain["unit"] == "person":
        fields |= {"rows_per_person": _whole, "agents_per_person": _whole}
    found = {
        "beta": 0.0,
        "rows_per_person": 1,
        "agents_per_person": 1,
        **_object(given, where, fields, {}),
    }
    return Terms(**found)


def _read_claim(given: Any, where: str) -> Claim:
    fields = {
        "epsilon": _figure,
        "mu": _maybe(_figure),
        "per_agent_epsilon": _list(_figure),
        "per_agent_mu": _maybe(_list(_figure)),
        "attacker_tpr": _number,
        "reproduction": _boolean,
        "conditional": _boolean,
    }
    claim = Claim(*(found := _object(given, where, fields, {})).values())
    mus = found["per_agent_mu"]
    if not claim.agents_epsilon or (mus is not None and len(mus) != len(claim.agents_epsilon)):
        raise RefusedError(
            f"{where} must have one per_agent_epsilon and per_agent_mu for every agent"
        )
    return claim


def _read_leg(given: Any, where: str, count: int) -> Leg:
    """Return a leg of a run of so many agents."""
    if isinstance(given, dict) and "choice" in given:
        found = _object(given, where, {"part": _text, "choice": _read_choice}, {})
        return Leg(found["part"], tuple(range(count)), found["choice"])
    fields: Fields = {
        "part": _text,
        "agents": _all_or(_list(_natural)),
        "records": _list(_pair(_whole)),
        "observer": _read_observer,
        "noise": _one_of(*NOISES),
        "values": _whole,
        "questions": _list(_read_question),
        "slots": _list(lambda given, _: given),
    }
    found = _object(given, where, fields, {})
    agents = tuple(range(count)) if found["agents"] is None else found["agents"]
    if not agents or sorted(set(agents)) != list(agents) or agents[-1] >= count:
        raise RefusedError(
            f"{where}.agents must be numbers from 0 to {count - 1}, in order, none twice"
        )
    pairs, asked = found["records"], found["questions"]
    if sum(n for n, _ in pairs) != len(agents):  # before they are written out, for they may be many
        raise RefusedError(f"{where}.records must be those of {len(agents)} agents")
    records = tuple(m for n, m in pairs for _ in range(n))
    slots = tuple(
        _read_slot(slot, f"{where}.slots[{i}]", asked, len(agents))
        for i, slot in enumerate(found["slots"])
    )
    return Leg(
        found["part"],
        agents,
        None,
        records,
        found["observer"],
        found["noise"],
        found["values"],
        slots,
    )


def _read_choice(given: Any, where: str) -> float:
    rate: float = _object(given, where, {"rate": _number}, {})["rate"]
    return rate


def _read_observer(given: Any, where: str) -> int | None:
    name = _object(given, where, {"name": _one_of("messages", "sum")}, {}, free=True)["name"]
    fields: dict[str, Reader] = {"name": _text} | ({"colluders": _natural} if name == "sum" else {})
    colluders: int | None = _object(given, where, fields, {}).get("colluders")
    return colluders


def _read_question(given: Any, where: str) -> Question:
    kind = _object(given, where, {"kind": _one_of(*KINDS)}, {}, free=True)["kind"]
    found = _object(given, where, {"kind": _text, **KINDS[kind][0]}, KINDS[kind][1])
    return Question(
        kind, {name: value for name, value in found.items() if not isinstance(value, str)}
    )


def _read_slot(given: Any, where: str, asked: Sequence[Question], count: int) -> Slot:
    def read(given: Any, where: str) -> Answer:
        return _read_answer(given, where, asked, count)

    slot = Slot(**_object(given, where, {"times": _whole, "answers": _list(read)}, {}))
    ranges = sorted(pair for answer in slot.answers for pair in answer.agents)
    if any(first <= last for (_, last), (first, _) in pairwise(ranges)):
        raise RefusedError(f"{where} names an agent twice")
    return slot


def _read_answer(given: Any, where: str, asked: Sequence[Question], count: int) -> Answer:
    fields = {"agents": _all_or(_list(_pair(_natural))), "question": _natural}
    fields |= {"sensitivity": _number, "scale": _number}
    found = _object(given, where, fields, {"step": _number, "rate": _share, "batch": _natural})
    if found["agents"] is None:
        found["agents"] = ((0, count - 1),)
    ends = [end for pair in found["agents"] for end in pair]
    if not ends or sorted(ends) != ends or ends[-1] >= count:
        raise RefusedError(
            f"{where}.agents must be ranges of the numbers from 0 to {count - 1}, in order"
        )
    if found["question"] >= len(asked):
        raise RefusedError(
            f"{where}.question is {found['question']}, but there are {len(asked)} questions"
        )
    return Answer(**{**found, "question": asked[found["question"]]})
