"""Certificates made by hand: what the tests accept, and what they change."""

import copy
import math

from mpmath import mp, mpf


def curve_gaussian(mu, epsilon):
    with mp.workdps(50):
        m, e = mpf(mu), mpf(epsilon)
        return mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)


def epsilon_gaussian(mu, delta):
    if mu == 0 or curve_gaussian(mu, 0) <= delta:
        return 0.0
    with mp.workdps(50):
        # Newton's rule in log δ, from a point at which the curve is near
        root = mpf(mu) ** 2 / 2 + mpf(mu) * mp.sqrt(2 * abs(aim := mp.log(delta)))
        for _ in range(400):
            below = mp.exp(root) * mp.ncdf(-root / mu - mpf(mu) / 2)
            level = curve_gaussian(mu, root)
            step = (mp.log(level) - aim) * level / below
            root = root / 2 if root + step <= 0 else root + step
            if abs(step) < mpf(10) ** -30 * root:
                break
        return float(root)


def rate_gaussian(mu):
    with mp.workdps(50):
        return float(mp.ncdf(mp.sqrt(2) * mp.erfinv(mpf(2) / 100 - 1) + mpf(mu)))


def rate_plain(epsilon, delta):
    return min(1.0, 0.01 * math.exp(epsilon) + delta, 1 - math.exp(-epsilon) * (0.99 - delta))


def make_answer(sensitivity, scale, agents="all", question=0, **others):
    answer = {"agents": agents, "question": question, "sensitivity": sensitivity, "scale": scale}
    return answer | others


def make_leg(questions, slots, records=((1, 100),), **others):
    return {
        "part": "all",
        "agents": "all",
        "records": [list(pair) for pair in records],
        "observer": {"name": "messages"},
        "noise": "gaussian",
        "values": 5,
        "questions": questions,
        "slots": [{"times": times, "answers": list(answers)} for times, answers in slots],
        **others,
    }


def make_document(legs, epsilon, mu=None, rate=None, delta=1e-6, relation="replace_one", **terms):
    epsilons = epsilon if isinstance(epsilon, list) else [epsilon]
    mus = mu if isinstance(mu, list) else [mu]
    top, top_mu = max(epsilons), None if None in mus else max(mus)
    if rate is None:
        rate = rate_plain(top, delta) if top_mu is None else rate_gaussian(top_mu)
    return {
        "format": "taciturn certificate 1",
        "terms": {"relation": relation, "unit": "record", "delta": delta, "dealt": False, **terms},
        "legs": legs,
        "claim": {
            "epsilon": top,
            "mu": top_mu,
            "per_agent_epsilon": epsilons,
            "per_agent_mu": None if top_mu is None else mus,
            "attacker_tpr": rate,
            "reproduction": False,
            "conditional": False,
        },
        "conditions": ["Noise is drawn as the file says."],
        "statement": ["Nobody learns much."],
        "version": "0.1.0",
    }


def make_gaussian(legs, mus, delta=1e-6, **terms):
    """Return a document whose figures follow from mu of every agent."""
    return make_document(
        legs, [epsilon_gaussian(mu, delta) for mu in mus], list(mus), delta=delta, **terms
    )


MEAN = {"kind": "mean", "coefficient": 2.0, "row": 1.5}
TALLY = {"kind": "tally"}


def make_mean(relation="replace_one", scale=0.1, times=20, **others):
    """Return a mean of 100 records, 2·1.5 long, asked so often."""
    delta = (1 if relation == "zero_out" else 2) * 3.0 / 100
    leg = make_leg([MEAN], [(times, [make_answer(delta, scale)])], **others)
    return make_gaussian([leg], [delta / scale * math.sqrt(times)], relation=relation)


def make_pair():
    """Return two agents of 100 and 50 records; the second answers at one of two slots only."""
    slots = [
        (3, [make_answer(0.06, 0.2, [[0, 0]]), make_answer(0.12, 0.3, [[1, 1]])]),
        (2, [make_answer(math.sqrt(2), 5.0, [[0, 0]], 1)]),
    ]
    leg = make_leg([MEAN, TALLY], slots, [(1, 100), (1, 50)])
    mus = [math.sqrt(3 * 0.3**2 + 2 * 2 / 25), math.sqrt(3) * 0.4]
    return make_gaussian([leg], mus)


def make_sum(colluders=1):
    """Return a sum over three agents of noise 1, 2 and 3."""
    answers = [make_answer(0.6, float(i + 1), [[i, i]]) for i in range(3)]
    observer = {"name": "sum", "colluders": colluders}
    leg = make_leg([MEAN], [(7, answers)], [(3, 10)], observer=observer)
    hidden = {0: [14, 14, 14], 1: [1 + 4, 4 + 1, 9 + 1], 2: [1, 4, 9]}[colluders]
    return make_gaussian([leg], [0.6 * math.sqrt(7 / variance) for variance in hidden])


def make_persons():
    """Return persons of up to 3 places at up to 2 of three agents."""
    answers = [make_answer(2 * 3.0 * 3 / m, 4.0, [[i, i]]) for i, m in enumerate((10, 20, 40))]
    leg = make_leg([MEAN], [(2, answers)], [(1, 10), (1, 20), (1, 40)])
    mus = [18 / m / 4 * math.sqrt(2) for m in (10, 20, 40)]
    document = make_gaussian([leg], mus, unit="person", rows_per_person=3, agents_per_person=2)
    total = math.hypot(mus[0], mus[1])
    document["claim"] |= {
        "epsilon": epsilon_gaussian(total, 1e-6),
        "mu": total,
        "attacker_tpr": rate_gaussian(total),
    }
    return document


def make_persons_sum():
    """Return a person at up to 2 of three agents whose sum is seen by one colluder."""
    answers = [
        make_answer(2 * 3.0 * 3 / m, s, [[i, i]]) for i, m, s in ((0, 10, 2.0), (1, 20, 3.0))
    ]
    observer = {"name": "sum", "colluders": 1}
    leg = make_leg([MEAN], [(5, answers)], [(1, 10), (1, 20), (1, 40)], observer=observer)
    # agent 0 keeps its own 4, for the other's 9 is the largest; the third is not asked
    mus = [1.8 * math.sqrt(5 / 4), 0.9 * math.sqrt(5 / 9), 0.0]
    document = make_gaussian([leg], mus, unit="person", rows_per_person=3, agents_per_person=2)
    total = (1.8 + 0.9) * math.sqrt(5 / 4)
    figures = {"epsilon": epsilon_gaussian(total, 1e-6), "mu": total}
    document["claim"] |= {**figures, "attacker_tpr": rate_gaussian(total)}
    return document


def make_mixed_legs():
    """Return Gaussian noise on one part, and Laplace noise of one of the agents on another."""
    means = make_leg([MEAN], [(4, [make_answer(0.06, 0.24)])], [(2, 100)])
    tallies = make_leg(
        [TALLY], [(4, [make_answer(2.0, 10.0)])], noise="laplace", values=1, part="b", agents=[1]
    )
    small = epsilon_gaussian(0.5, 1e-6)
    document = make_document([means, tallies], [small, max(small, 0.8)])
    document["claim"]["attacker_tpr"] = max(rate_gaussian(0.5), rate_plain(0.8, 1e-6))
    return document


def make_laplace():
    leg = make_leg([TALLY], [(4, [make_answer(2.0, 10.0)])], noise="laplace", values=1)
    return make_document([leg], 0.8)


def make_lattice():
    """Return the mean on a lattice of step 2^-10: its ε is above that of continuous noise."""
    step, d, delta, times = 2.0**-10, 5, 1e-6, 20
    leg = make_leg([MEAN], [(times, [make_answer(0.06, 0.5, step=step)])])
    with mp.workdps(50):
        mu = (mpf("0.06") + 2 * mpf(step) * mp.sqrt(d)) / mpf("0.5") * mp.sqrt(times)
        n, s = d * times, mpf("0.5") / mpf(step)
        eta1 = n / (24 * s**2)
        left = mpf(delta) * (1 - mpf(10) ** -10) * mp.exp(-eta1) * (1 - mpf(10) ** -15)
        inner = mpf(epsilon_gaussian(mu, left - mp.exp(-99)))

        def eta2(tau):
            root = mp.sqrt(1 + 2 * mp.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * s)
            return n * root**2 / (24 * s**2)

        gap = mpf(10) ** -10 * mpf(delta)
        level = mp.exp(eta2(100)) * (mpf("0.01") + gap) + mp.exp(-100)
        rate = mp.exp(eta1) * mp.ncdf(mp.sqrt(2) * mp.erfinv(2 * level - 1) + mu) + gap
        epsilon = inner + eta1 + eta2(100 + inner)
        return make_document([leg], float(epsilon), float(mu), float(rate))


def make_choice(rate=0.7):
    with mp.workdps(50):
        p = 1 / (1 + mp.exp(-mpf(rate)))
        mu = float(2 * mp.sqrt(2) * mp.erfinv(2 * p - 1))
    return make_gaussian([{"part": "choosing", "choice": {"rate": rate}}], [mu])


def make_two_legs():
    """Return a choice on one part and means on the other, dearer to the second agent."""
    document = make_pair()
    choice = make_choice(0.54)
    small = choice["claim"]["mu"]
    mus = [max(mu, small) for mu in document["claim"]["per_agent_mu"]]
    return make_gaussian(document["legs"] + choice["legs"], mus)


def make_sampled(relation="zero_out", rate=0.1, scale=0.3, times=50, noise="gaussian"):
    """Return means of Poisson batches with a claim still to be made."""
    moved = (1 if relation == "zero_out" else 2) * 3.0 / 100 / rate
    leg = make_leg([MEAN], [(times, [make_answer(moved, scale, rate=rate)])], noise=noise, values=1)
    return make_document([leg], 1.0, relation=relation)


def make_fixed():
    leg = make_leg([MEAN], [(50, [make_answer(0.6, 0.9, rate=0.1, batch=10)])])
    return make_document([leg], 1.0)


def make_perturbed(relation="replace_one"):
    question = {
        "kind": "perturbed", "coefficient": 2.0, "row": 1.5, "rho": 0.1, "smoothness": 0.5,
        "residual": 1e-3, "output_noise": 0.5,
    }  # fmt: skip
    moved = (1 if relation == "zero_out" else 2) * 0.03
    leg = make_leg([question], [(3, [make_answer(moved, 0.15)])])
    return make_document([leg], 1.0, relation=relation)


def change(document, path, value):
    """Return a copy with another field at a path; a function is applied to the old one."""
    other = copy.deepcopy(document)
    place = other
    for key in path[:-1]:
        place = place[key]
    if value is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return other


DELETED = object()


def claim(document, epsilon):
    """Return the document with another ε for every agent, and the attacker's rate that it gives."""
    other = copy.deepcopy(document)
    other["claim"]["epsilon"] = epsilon
    other["claim"]["per_agent_epsilon"] = [epsilon] * len(other["claim"]["per_agent_epsilon"])
    other["claim"]["attacker_tpr"] = rate_plain(epsilon, other["terms"]["delta"])
    return other


def list_fields(value, path=()):
    """Return the paths of all fields and entries."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        inside = list_fields(item, (*path, key)) if isinstance(item, dict | list) else []
        found += [(*path, key), *inside]
    return found


def make_laplace_lattice():
    """Return tallies under Laplace noise on a lattice: both etas are paid."""
    step, scale, times, d = 1e-7, 10.0, 4, 3
    answer = make_answer(2.0, scale, step=step)
    n, s, k = times * d, scale / step, 1
    while k * (math.log(k) - 1 - math.log(n / (2 * s))) < 100:
        k = 1 + math.floor(1.1 * k)
    epsilon = times * (2.0 + 2 * step * d) / scale + k / (4 * s) + n / (8 * s**2)
    leg = make_leg([TALLY], [(times, [answer])], noise="laplace", values=d)
    return make_document([leg], epsilon)


def make_dealt():
    """Return the pair, its records dealt by a secret draw: the dearest figures everywhere."""
    document = change(make_pair(), ("terms", "dealt"), True)
    for name in ("epsilon", "mu"):
        document["claim"][f"per_agent_{name}"] = [document["claim"][name]] * 2
    return document


def make_many():
    """Return a hundred answers of a hundred agents, in sums with three colluders."""
    each = [(1, [make_answer(0.06, 1.0 + i / 100)]) for i in range(100)]
    leg = make_leg([MEAN], each, [(100, 100)], observer={"name": "sum", "colluders": 3})
    mu = math.sqrt(sum(0.06**2 / 97 / (1.0 + i / 100) ** 2 for i in range(100)))
    return make_gaussian([leg], [mu] * 100)


EXACT = {
    "mean": make_mean(),
    "mean zero out": make_mean("zero_out"),
    "pair": make_pair(),
    "sum 0": make_sum(0),
    "sum 1": make_sum(1),
    "sum 2": make_sum(2),
    "persons": make_persons(),
    "persons sum": make_persons_sum(),
    "mixed legs": make_mixed_legs(),
    "laplace": make_laplace(),
    "lattice": make_lattice(),
    "laplace lattice": make_laplace_lattice(),
    "choice": make_choice(),
    "two legs": make_two_legs(),
    "dealt": make_dealt(),
}
# the epsilon of these is known from both sides, and their claim is to be made
BOUNDED = {
    "poisson zero out": make_sampled(),
    "poisson replace one": make_sampled("replace_one"),
    "poisson laplace": make_sampled(noise="laplace", times=10),
    "fixed": make_fixed(),
    "perturbed": make_perturbed(),
    "perturbed zero out": make_perturbed("zero_out"),
    "perturbed target change": make_perturbed("target_change"),
}
BOUNDED["perturbed target change"]["terms"]["beta"] = 1.0


def list_answers(document):
    return [
        ("legs", i, "slots", j, "answers", k)
        for i, leg in enumerate(document["legs"])
        for j, slot in enumerate(leg.get("slots", []))
        for k, _ in enumerate(slot["answers"])
    ]


OPTIONAL = ("version", "curvature", "widened", "step", "rate", "batch")
OF_ANSWERS = [
    ("sensitivity", lambda x: x * 1.001), ("sensitivity", lambda x: x / 2),
    ("scale", lambda x: x / 3), ("scale", lambda x: x * 2), ("scale", 0.0), ("step", 0.5),
    ("question", 9), ("agents", [[0, 99]]), ("agents", [[1, 0]]),
]  # fmt: skip
OF_LEGS = [
    ("records", lambda r: [[n, 3 * m] for n, m in r]), ("records", lambda r: r + r),
    ("agents", [0, 0]), ("agents", [99]),
]  # fmt: skip
OF_ALL = [
    (("claim", "epsilon"), lambda e: e * 0.9), (("claim", "epsilon"), lambda e: e * 1.1),
    (("claim", "per_agent_epsilon", 0), lambda e: e * 0.9),
    (("claim", "per_agent_epsilon"), lambda e: e + e[:1]),
    (("claim", "attacker_tpr"), lambda r: r * 0.999),
    (("claim", "attacker_tpr"), lambda r: r + 1e-6),
    (("claim", "reproduction"), True), (("claim", "epsilon"), "infinity"),
    (("claim", "mu"), lambda mu: 1.0 if mu is None else None),
    (("terms", "delta"), lambda d: d / 1e3), (("terms", "delta"), 0.0), (("terms", "delta"), 1.0),
    (("terms", "relation"), "bounded_change"), (("legs",), []), (("legs",), lambda x: x + x[:1]),
]  # fmt: skip


def list_mutations(document):
    """Return changes that each make a figure or a field false, and the path of each."""
    fields = list_fields(document)
    found = [(p, DELETED) for p in fields if isinstance(p[-1], str) and p[-1] not in OPTIONAL]
    for path in fields:
        value = document
        for key in path:
            value = value[key]
        if isinstance(value, bool):
            found.append((path, 1))
        elif isinstance(value, int | float):
            found += [(path, other) for other in (str(value), -1, math.nan, True, None, [], {})]
            if path[-1] == "mu" or path[:2] == ("claim", "per_agent_mu"):
                found.append((path, lambda mu: mu * 1.00001))
        elif not {"by", "version", "statement", "part", "conditions"} & {*path}:
            found += [(path, other) for other in (None, True, 1, "?")]
            found.append(((*path, "further"), 1) if isinstance(value, dict) else (path, {}))
            found.append((path, []) if not isinstance(value, list) else (path, [[]]))
    for path in list_answers(document):
        found += [((*path, field), value) for field, value in OF_ANSWERS]
        found += [((*path[:2], field), value) for field, value in OF_LEGS]
        found.append((path[:-1], lambda given: given + given[:1]))
        found += [((*path[:-2], "times"), value) for value in (lambda n: n * 3, 0, 1.5)]
    return [*found, *OF_ALL]


def list_false(name, document):
    """Return the paths of changes and the documents of which one field is false."""
    found = []
    for path, value in list_mutations(document):
        other = change(document, path, value)
        # either relation has the same bounds; a tally and a batch of a fixed size move as far
        # whatever the records are; the other leg is dearer
        true = (
            (path == ("terms", "relation") and "beta" in document["terms"])
            or (path[-1] == "records" and ("laplace" in name.split() or name == "fixed"))
            or (path[-1] == "records" and path[:2] == ("legs", 1))
            or (name in ("two legs", "dealt") and path[-1] == "scale" and path[5] == 0)
            or (name == "mixed legs" and path[-1] in ("scale", "agents") and path[1] == 1)
        )
        if other != document and not true:
            found.append((path, other))
    return found


MESSAGES = {"name": "messages"}
CLAIMED = {"kind": "claimed", "by": ["A <b>firm</b>"]}


def make_bare():
    leg = make_leg([MEAN], [(1, [make_answer(0.06, 0)])], noise="nonoise")
    document, endless = make_document([leg], 1.0), {"epsilon": "infinity", "mu": "infinity"}
    each = {f"per_agent_{name}": [value] for name, value in endless.items()}
    document["claim"] |= {**endless, **each, "attacker_tpr": 1.0}
    return document


ASKED, ANSWERED = ("legs", 0, "questions", 0), ("legs", 0, "slots", 0, "answers", 0)
BROKEN = [
    (("terms", "relation"), "record"), (("terms", "relation"), "toString"),
    (("terms", "unit"), "zero_out"), (("terms", "beta"), 1.0), (("claim",), []),
    (("claim", "mu"), "null"), (("claim", "per_agent_mu"), "null"),
    (("legs", 0, "agents"), []), (("legs", 0, "agents"), "null"),
    (("legs", 0, "records"), []), (("legs", 0, "records"), [[1, 0]]),
    (("legs", 0, "observer"), {"name": "sum"}), (("legs", 0, "choice"), {"rate": 1}),
    (("legs", 0, "observer"), {**MESSAGES, "colluders": 1}),
    ((*ASKED, "colour"), 1), ((*ASKED, "widened"), 0.1), ((*ASKED, "curvature"), 0),
    ((*ASKED, "kind"), "median"), ((*ANSWERED, "shift"), 0), ((*ANSWERED, "rate"), 0.5),
    ((*ANSWERED, "rate"), 1.1), ((*ANSWERED, "batch"), 50),
]  # fmt: skip


def list_bare(bare):
    """Yield what has no noise: a mu that is not stated, and a question that nobody moves."""
    for name in ("mu", "per_agent_mu"):
        yield f"no noise without {name}", change(bare, ("claim", name), None), "does not follow"
    still = change(bare, (*ASKED, "coefficient"), 0.0)
    still = change(still, (*ANSWERED, "sensitivity"), 0.0)
    each = {"per_agent_epsilon": [0.0], "per_agent_mu": [0.0]}
    still["claim"] |= {"epsilon": 0.0, "mu": 0.0, "attacker_tpr": 0.01, **each}
    yield "no noise where nobody moves", still, "follows"


def list_parts():
    """Yield parts of one record each, and a choice, with a unit that is in all of them."""
    answers, agent = [(1, [make_answer(6.0, 60.0)])], {"unit": "agent"}
    legs = [make_leg([MEAN], answers, [(1, 1)], part=str(i), agents=[i]) for i in range(2)]
    parts, person = make_gaussian(legs, [0.1, 0.1]), {"unit": "person", "rows_per_person": 1}
    yield "two parts", parts, "follows"
    for name, document in (("parts", parts), ("a choice", EXACT["choice"])):
        for unit in (agent, {**person, "agents_per_person": 2}):
            other = change(document, ("terms",), lambda terms, unit=unit: terms | unit)
            yield f"{name} of one {unit['unit']}", other, "does not follow"


def list_verdicts():
    """Yield a name, a document and the verdict on it."""
    mean, pair, bare, dealt = EXACT["mean"], EXACT["pair"], make_bare(), EXACT["dealt"]
    follows, refused = "follows", "does not follow"
    turned = change(pair, ("legs", 0, "slots"), lambda slots: slots[::-1])
    yield "slots in another order", turned, follows
    kinds = change(turned, ("legs", 0, "questions"), lambda questions: questions[::-1])
    for path in list_answers(kinds):
        kinds = change(kinds, (*path, "question"), lambda index: 1 - index)
    yield "kinds in another order", kinds, follows
    one = change(mean, ("legs", 0, "slots", 0, "times"), 1)
    yield "a slot as many", change(one, ("legs", 0, "slots"), lambda slots: slots * 20), follows
    yield "a small mu", make_mean(scale=1e20), follows
    yield "a large mu", make_mean(scale=1e-3), follows
    yield "many answers of many agents", make_many(), follows
    for wrong in (0, 2):
        counted = change(EXACT["sum 1"], ("legs", 0, "observer", "colluders"), wrong)
        yield f"{wrong} colluders", counted, refused
    yield "dealt with figures of its own", change(pair, ("terms", "dealt"), True), refused
    yield "dealt no more", change(dealt, ("terms", "dealt"), False), refused
    for field in ("rows_per_person", "agents_per_person"):
        more = change(EXACT["persons"], ("terms", field), lambda n: n + 1)
        yield f"more {field}", more, refused
    seeded = change(mean, ("claim", "reproduction"), True)
    yield "a reproduction with a rate", seeded, refused
    yield "a reproduction", change(seeded, ("claim", "attacker_tpr"), 1), "no guarantee"
    yield "no noise", bare, "no guarantee"
    yield (
        "Gaussian noise of scale 0",
        change(bare, ("legs", 0, "noise"), "gaussian"),
        "no guarantee",
    )
    yield "no noise at a finite epsilon", change(bare, ("claim", "epsilon"), 1e300), refused
    yield "no noise of a finite mu", change(bare, ("claim", "mu"), 1.0), refused
    yield from list_bare(bare)
    yield from list_parts()
    yield "Laplace noise of mu", change(bare, ("legs", 0, "noise"), "laplace"), refused
    word = change(mean, ("legs", 0, "questions", 0), CLAIMED)
    yield "a word that is not said to be one", word, refused
    for name, document in (("a word", word), ("a condition", mean)):
        yield name, change(document, ("claim", "conditional"), True), "follows under conditions"
    persons = change(EXACT["persons"], ("legs", 0, "noise"), "laplace")
    yield "persons at agents under Laplace noise", persons, refused
    listed = change(EXACT["mixed legs"], ("claim", "per_agent_mu"), [0.5, 0.5])
    yield "mu of mixed legs", listed, refused
    yield "mu of one agent", change(listed, ("claim", "per_agent_mu", 1), None), refused
    yield "another Laplace epsilon", claim(EXACT["laplace lattice"], 0.7), refused
    added, paths = EXACT["sum 0"], list_answers(EXACT["sum 0"])
    for path, step in zip(paths, (2**-36, 1 / 8, 1 / 8), strict=True):
        added = change(added, (*path, "step"), step)
    yield "answers that are added up on several lattices", added, refused
    for broken in ({}, {"format": []}, {"legs": 1}, {"1": 2}):
        yield "a broken file", broken, refused
    for path, value in BROKEN:
        yield f"{path[-1]} {value}", change(mean, path, value), refused
