"""The structure of a certificate: anything unspecified is refused with a reason."""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any

Fields = SimpleNamespace  # of an object, as they are read
Forms = Mapping[str, str]


class RefusedError(ValueError):
    """The certificate does not follow, for the reason that the exception states."""


def demand(holds: Any, sentence: str) -> None:
    """Refuse a file unless a condition holds."""
    if not holds:
        raise RefusedError(sentence)


def parse(text: str) -> Any:
    """Return the JSON object in a text."""

    def join(items: list[tuple[str, Any]]) -> dict[str, Any]:
        demand(len(dict(items)) == len(items), "an object has a key twice")
        return dict(items)

    document = None
    with suppress(RecursionError):  # NaN and infinities are refused, too
        document = json.loads(text, object_pairs_hook=join, parse_constant=partial(demand, False))
    demand(isinstance(document, dict), "the file holds no JSON object")
    return document


VALUES: Mapping[str, Callable[[Any], bool]] = {
    "number": lambda x: type(x) in (int, float) and 0 <= x <= 1.7e308,  # so not NaN
    "positive": lambda x: VALUES["number"](x) and x > 0,
    "share": lambda x: VALUES["number"](x) and 0 < x <= 1,
    "level": lambda x: VALUES["number"](x) and 0 < x < 1,
    "figure": lambda x: VALUES["number"](x) or x == "infinity",
    "natural": lambda x: type(x) is int and 0 <= x < 2**53,
    "count": lambda x: type(x) is int and 0 < x < 2**53,
    "pair": lambda x: type(x) is list and len(x) == 2 and all(map(VALUES["natural"], x)),
    "text": lambda x: type(x) is str,
    "flag": lambda x: type(x) is bool,
    "format": lambda x: x == "taciturn certificate 1",
    "word": lambda x: type(x) is str,
    "object": lambda x: type(x) is dict,
    "triple": lambda x: type(x) is list and len(x) == 3 and all(map(VALUES["number"], x)),
}
# the fields of objects, and those that a word adds; * marks a list, ? an optional field
OBJECTS = {
    "certificate": "format:format terms:terms legs:leg* claim:claim conditions:text* "
    "statement:text*",
    "terms": "relation:word unit:word delta:level dealt:flag",
    "unit person": "rows_per_person:count agents_per_person:count",
    "claim": "epsilon:figure mu:figure|null per_agent_epsilon:figure* per_agent_mu:figure*|null "
    "attacker_tpr:number reproduction:flag conditional:flag",
    "leg": "part:text agents:natural*|all records:pair* observer:observer "
    "noise:gaussian/laplace/nonoise values:count questions:question* slots:slot*",
    "choice": "part:text choice:rate",
    "rate": "rate:number",
    "observer": "name:word",
    "name sum": "colluders:natural",
    "question": "kind:word",
    "kind mean": "coefficient:figure row:number curvature?:positive widened?:number",
    "kind perturbed": "coefficient:number row:number rho:positive smoothness:number "
    "residual:number output_noise:positive",
    "kind derivatives": "coefficient:number row:number weight:number divisor:positive "
    "squares?:number",
    "kind targets": "steps:count targets:count",
    "kind claimed": "by:text*",
    "slot": "times:count answers:answer*",
    "answer": "agents:pair*|all question:natural sensitivity:figure scale:number step?:number "
    "rate?:share batch?:natural",
}
PLAIN = ("relation replace_one", "relation zero_out", "unit record", "unit agent", "name messages")
OBJECTS |= dict.fromkeys(PLAIN, "")  # without further fields
OBJECTS |= dict.fromkeys(("relation bounded_change", "relation target_change"), "beta:number")
OBJECTS |= dict.fromkeys(("kind moments", "kind target sums"), "row:number target:number")
OBJECTS |= {"kind errors": (n := "rows_per_person?:count"), "kind tally": f"{n} offsets?:share"}
OBJECTS["kind counts"] = f"{n} tables:count"


def _read_as(form: str, given: Any, place: str, forms: Forms) -> Any:
    form, *words = form.split("|")
    if ("all" in words and given == "all") or ("null" in words and given is None):
        return given
    if form.endswith("*") and type(given) is list:
        return [_read_as(form[:-1], x, f"{place}[{i}]", forms) for i, x in enumerate(given)]
    if form in forms and type(given) is dict:
        form = "choice" if form == "leg" and "choice" in given else form
        return read_object(form, given, place, forms)
    holds = VALUES.get(form, lambda x: "/" in form and x in form.split("/"))(given)
    demand(holds, f"{place} must be a {form}, not {given!r:.60}")
    return math.inf if given == "infinity" else given


def read_object(form: str, given: dict[str, Any], place: str, forms: Forms = OBJECTS) -> Fields:
    """Return the fields of an object; absent optional ones are 0."""
    fields = forms[form].split()
    for name in [field[:-5] for field in fields if field.endswith(":word")]:
        kind = f"{name} {given.get(name)}"
        demand(kind in forms, f"{place}.{name} is unknown: {given.get(name)!r:.60}")
        fields += forms[kind].split()
    known = dict(field.replace("?", "").split(":") for field in fields)
    needed = {field.split(":")[0] for field in fields if "?" not in field}
    demand(needed <= given.keys(), f"{place} lacks {', '.join(needed - given.keys())}")
    demand(given.keys() <= known.keys(), f"{place} has more: {given.keys() - known.keys()}")
    read = {name: _read_as(known[name], given[name], f"{place}.{name}", forms) for name in given}
    return Fields(**dict.fromkeys(known, 0) | read)


def read(document: Mapping[str, Any]) -> Fields:
    """Return the certificate in a document, without fields that are not named here."""
    names = [field.split(":")[0] for field in OBJECTS["certificate"].split()]
    found = read_object("certificate", {n: document[n] for n in names if n in document}, "file")
    absent = {"beta": 0, "rows_per_person": 1, "agents_per_person": 1}
    found.terms = Fields(**absent | vars(found.terms))
    count, mus = len(found.claim.per_agent_epsilon), found.claim.per_agent_mu
    demand(count and (mus is None or len(mus) == count), "every agent must have its figures")
    parts = {leg.part for leg in found.legs}
    demand(0 < len(parts) == len(found.legs), "legs must be one for each of at least one part")
    for leg in found.legs:
        complete(leg, count)
    return found


def complete(leg: Fields, count: int) -> None:
    """Expand the agents of a leg, their records and answers; a choice has none of these."""
    if "choice" in vars(leg):
        vars(leg).update(agents="all", records=[(count, 1)], slots=[], noise="nonoise", values=1)
    leg.agents = list(range(count)) if leg.agents == "all" else leg.agents
    in_order = sorted({*leg.agents, count}) == [*leg.agents, count] and leg.agents
    demand(in_order, f"the agents of a leg must be numbers below {count}, in order")
    counted = sum(n for n, _ in leg.records) == len(leg.agents) and all(map(all, leg.records))
    demand(counted, f"the records of a leg must be those of {len(leg.agents)} agents")
    leg.records, leg.answers = [m for n, m in leg.records for _ in range(n)], []
    for slot in leg.slots:
        last = len(leg.agents) - 1
        ranges = [[[0, last]] if a.agents == "all" else a.agents for a in slot.answers]
        pairs = sorted(chain.from_iterable(ranges))
        ends = [*chain.from_iterable(pairs), last]
        apart = sorted(ends) == ends and all(a[1] < b[0] for a, b in pairwise(pairs))
        demand(apart, "a slot names an agent twice, or one that does not exist")
        for answer, own in zip(slot.answers, ranges, strict=True):
            demand(answer.question < len(leg.questions), "a question does not exist")
            answer.question, answer.rate = leg.questions[answer.question], answer.rate or 1
            answer.agents = [i for first, last in own for i in range(first, last + 1)]
            answer.times = slot.times
            if leg.noise == "nonoise":
                answer.scale = answer.step = 0
        leg.answers += slot.answers
    plain = all(answer.rate == 1 and answer.question.kind != "perturbed" for answer in leg.answers)
    leg.gaussian = leg.noise == "nonoise" or (leg.noise == "gaussian" and plain)
