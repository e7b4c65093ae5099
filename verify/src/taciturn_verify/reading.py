"""The structure of a certificate: what is not specified is refused with a sentence."""

import json
import math
from collections.abc import Mapping
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any, NoReturn

Form = Any  # of a field; see read_as
Fields = SimpleNamespace  # of an object, as they are read


class RefusedError(ValueError):
    """The certificate does not follow, for the reason that the exception states."""


class UnreadableError(ValueError):
    """The file is no certificate that could be judged."""


def parse(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or raise UnreadableError."""

    def join(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(items) if len(dict(items)) == len(items) else refuse("a key twice")

    def refuse(what: str) -> NoReturn:
        raise UnreadableError(f"it holds {what}")

    try:
        document = json.loads(text, object_pairs_hook=join, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    return document if isinstance(document, dict) else refuse("no object")


def is_number(given: Any) -> bool:
    """Return whether it is a number of at least 0, which NaN and true are not."""
    return type(given) in (int, float) and 0 <= given <= 1.7e308


NUMBER = "a number of at least 0", is_number
POSITIVE = "a number above 0", lambda x: is_number(x) and x > 0
SHARE = "a number above 0 and at most 1", lambda x: is_number(x) and 0 < x <= 1
LEVEL = "a number above 0 and below 1", lambda x: is_number(x) and 0 < x < 1
FIGURE = "a number of at least 0", lambda x: is_number(x) or x == "infinity"
NATURAL = "a whole number", lambda x: type(x) is int and 0 <= x < 2**53
COUNT = "a whole number of at least 1", lambda x: type(x) is int and 0 < x < 2**53
PAIRS = "pairs of whole numbers", lambda x: type(x) is list and all(map(is_pair, x))
TEXT = "a text", lambda x: type(x) is str
FLAG = "true or false", lambda x: type(x) is bool
ALL = "all", lambda x: x == "all"
NULL = "null", lambda x: x is None


def is_pair(given: Any) -> bool:
    """Return whether it is a pair of whole numbers."""
    return type(given) is list and len(given) == 2 and all(map(NATURAL[1], given))


def choose(*names: str) -> Form:
    """Return the form of one of these names."""
    return f"one of {', '.join(names)}", lambda x: x in names


# the fields of every kind of question but for kind; one that ends in ? may be left out
QUESTIONS: dict[str, Form] = {
    "mean": {"coefficient": NUMBER, "row": NUMBER, "curvature?": POSITIVE, "widened?": NUMBER},
    "perturbed": dict.fromkeys(("coefficient", "row", "smoothness", "residual"), NUMBER)
    | dict.fromkeys(("rho", "output_noise"), POSITIVE),
    "moments": {"row": NUMBER, "target": NUMBER},
    "tally": {"rows_per_person?": COUNT},
    "errors": {"rows_per_person?": COUNT},
    "targets": {"steps": COUNT, "targets": COUNT},
    "target sums": {"row": NUMBER, "target": NUMBER},
    "claimed": {"by": TEXT},
}
OBSERVERS = {"messages": {}, "sum": {"colluders": NATURAL}}
CHANGES = {"bounded_change": {"beta": NUMBER}, "target_change": {"beta": NUMBER}}
PERSONS = {"person": {"rows_per_person": COUNT, "agents_per_person": COUNT}}
ANSWER = {
    "agents": lambda x: ALL if x == "all" else PAIRS,
    "question": NATURAL,
    "sensitivity": NUMBER,
    "scale": NUMBER,
    "step?": NUMBER,
    "rate?": SHARE,
    "batch?": NATURAL,
}
LEG = {
    "part": TEXT,
    "agents": lambda x: ALL if x == "all" else [NATURAL],
    "records": PAIRS,
    "observer": lambda x: {"name": choose(*OBSERVERS)} | find_more(x, "name", OBSERVERS),
    "noise": choose("gaussian", "laplace", "nonoise"),
    "values": COUNT,
    "questions": [lambda x: {"kind": choose(*QUESTIONS)} | find_more(x, "kind", QUESTIONS)],
    "slots": [{"times": COUNT, "answers": [ANSWER]}],
}
CHOICE = {"part": TEXT, "choice": {"rate": NUMBER}}
TERMS = {
    "relation": choose("replace_one", "zero_out", *CHANGES),
    "unit": choose("record", "agent", "person"),
    "delta": LEVEL,
    "dealt": FLAG,
}
CERTIFICATE = {
    "format": choose("taciturn certificate 1"),
    "terms": lambda x: TERMS | find_more(x, "relation", CHANGES) | find_more(x, "unit", PERSONS),
    "legs": [lambda x: CHOICE if type(x) is dict and "choice" in x else LEG],
    "claim": {
        "epsilon": FIGURE,
        "mu": lambda x: NULL if x is None else FIGURE,
        "per_agent_epsilon": [FIGURE],
        "per_agent_mu": lambda x: NULL if x is None else [FIGURE],
        "attacker_tpr": NUMBER,
        "reproduction": FLAG,
        "conditional": FLAG,
    },
    "conditions": [TEXT],
    "statement": [TEXT],
}


def find_more(given: Any, key: str, forms: Mapping[str, Form]) -> Form:
    """Return the further fields of an object that has a certain name at a key."""
    name = given.get(key) if type(given) is dict else None
    return forms.get(name, {}) if type(name) is str else {}


def read_as(form: Form, given: Any, place: str) -> Any:
    """Return what stands at a place, or refuse it.

    A form is {name: form}, [form], a sentence with a condition, or a function to one of these.
    """
    if callable(form):
        return read_as(form(given), given, place)
    if isinstance(form, list):
        items = read_as(("a list", lambda x: type(x) is list), given, place)
        return [read_as(form[0], item, f"{place}[{i}]") for i, item in enumerate(items)]
    if isinstance(form, dict):
        read_as(("an object", lambda x: type(x) is dict), given, place)
        known = {name.rstrip("?"): name for name in form}
        for name in known.keys() | given.keys():
            if name not in known or (name not in given and name == known[name]):
                raise RefusedError(f"{place} {'lacks' if name in known else 'has'} a field {name}")
        return Fields(
            **{
                n: read_as(form[known[n]], given[n], f"{place}.{n}") if n in given else 0
                for n in known
            }
        )
    sentence, holds = form
    if not holds(given):
        raise RefusedError(f"{place} must be {sentence}, not {given!r:.60}")
    return math.inf if given == "infinity" else given


def read(document: Mapping[str, Any]) -> Fields:
    """Return the certificate in a document, but for fields that are not named here."""
    known = {name: value for name, value in document.items() if name in CERTIFICATE}
    found: Fields = read_as(CERTIFICATE, known, "certificate")
    absent = {"beta": 0, "rows_per_person": 1, "agents_per_person": 1}
    found.terms = Fields(**absent | vars(found.terms))
    count, mus = len(found.claim.per_agent_epsilon), found.claim.per_agent_mu
    if not count or (mus is not None and len(mus) != count):
        raise RefusedError("per_agent_epsilon and per_agent_mu must have an entry for every agent")
    if not found.legs or len({leg.part for leg in found.legs}) < len(found.legs):
        raise RefusedError("legs must be at least one, and no two on the same part")
    for leg in found.legs:
        complete(leg, count)
    return found


def complete(leg: Fields, count: int) -> None:
    """Write out the agents of a leg, their records and answers; a choice has none of these."""
    named, leg.slots = getattr(leg, "agents", "all"), getattr(leg, "slots", [])
    leg.agents = list(range(count)) if named == "all" else named
    if not leg.agents or sorted({*leg.agents, count}) != [*leg.agents, count]:
        raise RefusedError(f"the agents of a leg must be numbers below {count}, in order")
    records = getattr(leg, "records", [(len(leg.agents), 1)])
    if sum(n for n, _ in records) != len(leg.agents) or [0 for pair in records if min(pair) < 1]:
        raise RefusedError(f"the records of a leg must be those of {len(leg.agents)} agents")
    leg.records, leg.answers = [m for n, m in records for _ in range(n)], []
    for slot in leg.slots:
        for answer in slot.answers:
            if answer.question >= len(leg.questions):
                raise RefusedError(f"question {answer.question} is not there")
            answer.question, answer.rate = leg.questions[answer.question], answer.rate or 1
            answer.times = slot.times
            if answer.agents == "all":
                answer.agents = [[0, len(leg.agents) - 1]]
            if leg.noise == "nonoise":
                answer.scale = answer.step = 0
        write_out(slot, len(leg.agents))
        leg.answers += slot.answers


def write_out(slot: Fields, count: int) -> None:
    """Write out the numbers of the agents of all answers."""
    pairs = sorted(pair for answer in slot.answers for pair in answer.agents)
    ends = [*chain.from_iterable(pairs), count - 1]
    if sorted(ends) != ends or any(one[1] == two[0] for one, two in pairwise(pairs)):
        raise RefusedError("a slot names an agent twice, or one that is not there")
    for answer in slot.answers:
        answer.agents = [i for first, last in answer.agents for i in range(first, last + 1)]
