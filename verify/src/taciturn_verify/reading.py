"""The structure of a certificate: what is not specified is refused with a sentence."""

import json
import math
from collections.abc import Callable, Mapping
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any

Reader = Callable[[Any], Any]
Fields = SimpleNamespace  # of an object, as they are read


class RefusedError(ValueError):
    """The certificate does not follow, for the reason that the exception states."""


class UnreadableError(ValueError):
    """The file is no certificate that could be judged."""


def parse(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or raise UnreadableError."""

    def join(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) < len(items):
            raise UnreadableError("an object has a key twice")
        return dict(items)

    def refuse(name: str) -> float:
        raise UnreadableError(f"{name} is no number of JSON")

    try:
        document = json.loads(text, object_pairs_hook=join, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(document, dict):
        raise UnreadableError("the file holds no JSON object")
    return document


def expect(needed: str, holds: Callable[[Any], bool]) -> Reader:
    """Return a reader that refuses what a condition does not hold for."""

    def read(given: Any) -> Any:
        if not holds(given):
            raise RefusedError(f"must be {needed}, not {given!r:.60}")
        return given

    return read


def is_number(given: Any) -> bool:
    """Return whether it is a number of at least 0, which NaN and true are not."""
    return type(given) in (int, float) and 0 <= given <= 1.7e308


NUMBER = expect("a number of at least 0", is_number)
POSITIVE = expect("a number above 0", lambda x: is_number(x) and x > 0)
SHARE = expect("a number above 0 and at most 1", lambda x: is_number(x) and 0 < x <= 1)
LEVEL = expect("a number above 0 and below 1", lambda x: is_number(x) and 0 < x < 1)
NATURAL = expect("a whole number", lambda x: type(x) is int and 0 <= x < 2**53)
COUNT = expect("a whole number of at least 1", lambda x: type(x) is int and 0 < x < 2**53)
TEXT = expect("a text", lambda x: isinstance(x, str))
FLAG = expect("true or false", lambda x: isinstance(x, bool))
LIST = expect("a list", lambda x: isinstance(x, list))
OBJECT = expect("an object", lambda x: isinstance(x, dict))


def choose(*names: str) -> Reader:
    """Return a reader of one of these names."""
    return expect(f"one of {', '.join(names)}", lambda x: x in names)


def allow(word: str | None, meaning: Any, read: Reader) -> Reader:
    """Return a reader that takes a word, too."""
    return lambda given: meaning if given == word else read(given)


def read_at(place: str, read: Reader, given: Any) -> Any:
    """Return what a reader returns, or refuse it with the name of its place."""
    try:
        return read(given)
    except RefusedError as refused:
        raise RefusedError(f"{place} {refused}") from None


def repeat(read: Reader) -> Reader:
    """Return a reader of a list."""
    return lambda given: [read_at(f"[{i}]", read, x) for i, x in enumerate(LIST(given))]


def pair(read: Reader) -> Reader:
    """Return a reader of a pair."""
    both = expect("a pair", lambda x: isinstance(x, list) and len(x) == 2)
    return lambda given: tuple(map(read, both(given)))


def collect(needed: Mapping[str, Reader], **others: tuple[Reader, Any]) -> Reader:
    """Return a reader of an object with these fields, and maybe others, which have defaults."""
    readers = {**needed, **{name: read for name, (read, _) in others.items()}}

    def read(given: Any) -> Fields:
        if missing := needed.keys() - OBJECT(given).keys():
            raise RefusedError(f"lacks the field {min(missing)}")
        if unknown := given.keys() - readers.keys():
            raise RefusedError(f"has the unknown field {unknown.pop()}")
        found = {name: default for name, (_, default) in others.items()}
        return Fields(**found | {n: read_at(n, readers[n], given[n]) for n in given})

    return read


def select(key: str, readers: Mapping[str, Reader]) -> Reader:
    """Return a reader of an object that has other fields for every name at a key."""
    named = choose(*readers)
    return lambda given: readers[read_at(key, named, OBJECT(given).get(key))](given)


FIGURE = allow("infinity", math.inf, NUMBER)
CLAIM = collect(
    {
        "epsilon": FIGURE,
        "mu": allow(None, None, FIGURE),
        "per_agent_epsilon": repeat(FIGURE),
        "per_agent_mu": allow(None, None, repeat(FIGURE)),
        "attacker_tpr": NUMBER,
        "reproduction": FLAG,
        "conditional": FLAG,
    }
)
MEAN = {"kind": TEXT, "coefficient": NUMBER, "row": NUMBER}
INSIDE = {"rho": POSITIVE, "smoothness": NUMBER, "residual": NUMBER, "output_noise": POSITIVE}
PRODUCTS = collect({"kind": TEXT, "row": NUMBER, "target": NUMBER})
SUMS = collect({"kind": TEXT}, rows_per_person=(COUNT, None))
QUESTION = select(
    "kind",
    {
        "mean": collect(MEAN, curvature=(POSITIVE, None), widened=(NUMBER, 0)),
        "perturbed": collect({**MEAN, **INSIDE}),
        "moments": PRODUCTS,
        "tally": SUMS,
        "errors": SUMS,
        "targets": collect({"kind": TEXT, "steps": COUNT, "targets": COUNT}),
        "target sums": PRODUCTS,
        "claimed": collect({"kind": TEXT, "by": TEXT}),
    },
)
ANSWER = collect(
    {
        "agents": allow("all", None, repeat(pair(NATURAL))),
        "question": NATURAL,
        "sensitivity": NUMBER,
        "scale": NUMBER,
    },
    step=(NUMBER, 0),
    rate=(SHARE, 1),
    batch=(NATURAL, 0),
)
LEG = {
    "part": TEXT,
    "agents": allow("all", None, repeat(NATURAL)),
    "records": repeat(pair(COUNT)),
    "observer": select(
        "name",
        {
            "messages": collect({"name": TEXT}),
            "sum": collect({"name": TEXT, "colluders": NATURAL}),
        },
    ),
    "noise": choose("gaussian", "laplace", "nonoise"),
    "values": COUNT,
    "questions": repeat(QUESTION),
    "slots": repeat(collect({"times": COUNT, "answers": repeat(ANSWER)})),
}
CHOICE = {"part": TEXT, "choice": collect({"rate": NUMBER})}


def read_terms(given: Any) -> Fields:
    """Return the terms; K and M are 1 but for persons."""
    fields = {
        "relation": choose("replace_one", "zero_out", "bounded_change", "target_change"),
        "unit": choose("record", "agent", "person"),
        "delta": LEVEL,
        "dealt": FLAG,
    }
    if OBJECT(given).get("relation") in ("bounded_change", "target_change"):
        fields["beta"] = NUMBER
    if given.get("unit") == "person":
        fields |= {"rows_per_person": COUNT, "agents_per_person": COUNT}
    absent = {"beta": 0, "rows_per_person": 1, "agents_per_person": 1}
    return Fields(**absent | vars(collect(fields)(given)))


def read(document: Mapping[str, Any]) -> Fields:
    """Return the certificate in a document, with the names of other fields free."""
    fields = {
        "format": choose("taciturn certificate 1"),
        "terms": read_terms,
        "claim": CLAIM,
        "conditions": repeat(TEXT),
        "statement": repeat(TEXT),
        "legs": repeat(lambda leg: collect(CHOICE if "choice" in OBJECT(leg) else LEG)(leg)),
    }
    found: Fields = collect(fields)({n: value for n, value in document.items() if n in fields})
    count, mus = len(found.claim.per_agent_epsilon), found.claim.per_agent_mu
    if not count or (mus is not None and len(mus) != count):
        raise RefusedError("per_agent_epsilon and per_agent_mu must have an entry for every agent")
    if not found.legs or len({leg.part for leg in found.legs}) < len(found.legs):
        raise RefusedError("legs must be at least one, and no two on the same part")
    for leg in found.legs:
        complete(leg, count)
    return found


def complete(leg: Fields, count: int) -> None:
    """Write out the agents of a leg and its answers, their records and questions."""
    leg.agents = list(range(count)) if getattr(leg, "agents", None) is None else leg.agents
    if "choice" in vars(leg):
        return
    if not leg.agents or sorted({*leg.agents, count}) != [*leg.agents, count]:
        raise RefusedError(f"the agents of a leg must be numbers below {count}, in order")
    if sum(n for n, _ in leg.records) != len(leg.agents):  # before they are written out
        raise RefusedError(f"the records of a leg must be those of {len(leg.agents)} agents")
    leg.records = [m for n, m in leg.records for _ in range(n)]
    for slot in leg.slots:
        for answer in slot.answers:
            if answer.agents is None:
                answer.agents = [(0, len(leg.agents) - 1)]
            if answer.question >= len(leg.questions):
                raise RefusedError(f"question {answer.question} is not there")
            answer.question = leg.questions[answer.question]
            if leg.noise == "nonoise":
                answer.scale = answer.step = 0
        pairs = sorted(chain.from_iterable(answer.agents for answer in slot.answers))
        ends = [*chain.from_iterable(pairs), len(leg.agents) - 1]
        if sorted(ends) != ends or any(one[1] == two[0] for one, two in pairwise(pairs)):
            raise RefusedError("a slot names an agent twice, or one that is not there")
        for answer in slot.answers:
            answer.agents = [i for first, last in answer.agents for i in range(first, last + 1)]
