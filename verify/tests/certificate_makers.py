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
    return {
        "agents": agents,
        "question": question,
        "sensitivity": sensitivity,
        "scale": scale,
        **others,
    }


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
        shrunk = mpf(delta) * (1 - mpf(10) ** -10) * mp.exp(-eta1) * (1 - mpf(10) ** -15) - mp.exp(
            -99
        )
        inner = mpf(epsilon_gaussian(mu, shrunk))

        def eta2(tau):
            return (
                n
                * (mp.sqrt(1 + 2 * mp.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * s)) ** 2
                / (24 * s**2)
            )

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
        "kind": "perturbed",
        "coefficient": 2.0,
        "row": 1.5,
        "rho": 0.1,
        "smoothness": 0.5,
        "residual": 1e-3,
        "output_noise": 0.5,
    }
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
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = []
    for key, item in items:
        found += [(*path, key), *list_fields(item, (*path, key))]
    return found
