"""Figures 1 to 6 and the tables, and the orderings that they decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal

from taciturn_papers.as_published import ConsensusFacts, consensus_bound, smooth_consensus_bound
from taciturn_papers.reproductions.figure import (
    Budget,
    Curve,
    Figure,
    Measured,
    Panel,
    Table,
    commonest_label,
    level,
    ticks,
)
from taciturn_papers.reproductions.huang2019.arms import (
    AUGMENTED,
    DP_ADMM,
    DPSGD,
    DVP,
    ERROR,
    EXACT,
    LOCAL_ERROR,
    LOCAL_LOSS,
    LOSS,
    METRICS,
    OURS,
    PUBLIC,
    PVP,
    Outcome,
)
from taciturn_papers.reproductions.huang2019.runs import Half, Timings
from taciturn_papers.reproductions.huang2019.settings import (
    NO_NOISE,
    Scale,
    all_budgets,
    by_delta,
    by_epsilon,
    equal_totals,
    noise_of_round,
    shared,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair, below, rising

Whose = Literal["paper", "ours"]
_RULES = {"nonsmooth": "non-smooth schedule (29)", "smooth": "schedule (34)"}
_FIRST = {"l1": 1, "l2": 4}
_BOUNDS = {"nonsmooth": "optimum + bound (32)", "smooth": "optimum + bound (37)"}
OPTIMUM = "centralised optimum"
# the paper does not say where an error is measured
_READINGS = {"at the agents' iterates": LOCAL_ERROR, "at the common model": ERROR}


def figures(half: Half, scale: Scale) -> tuple[Figure, Figure, Figure]:
    """Return Figures 1 to 3 (l1) or 4 to 6 (l2)."""
    made = (_agents(half, scale), _convergence(half, scale), _comparison(half, scale))
    rule = f"{half.kind} regulariser, {_RULES[scale.steps(half.kind)]}"
    first, second, third = (replace(one, title=f"{one.title} ({rule})") for one in made)
    return first, second, third


def name_of(half: Half, place: int) -> str:
    """Return "Figure 4" for the first figure of the l2 half."""
    return f"Figure {_FIRST[half.kind] + place}"


def _figure(
    half: Half, place: int, topic: str, texts: tuple[str, str], panels: Sequence[Panel]
) -> Figure:
    name = name_of(half, place)
    return Figure(name, f"{name}: {topic}", texts[0], texts[1], tuple(panels))


def _agents(half: Half, scale: Scale) -> Figure:
    texts = (
        f"The same {scale.records:,} records are dealt out among more and more agents. Each agent "
        "hides one of its records, so the fewer it has the more noise it adds. How much accuracy "
        "does that cost?",
        "accuracy falls as the number of agents grows.",
    )
    panels = [_over_agents(half, scale, metric) for metric in METRICS]
    return _figure(half, 0, "how many agents share the records", texts, panels)


def _over_agents(half: Half, scale: Scale, metric: str) -> Panel:
    x = tuple(float(agents) for agents in half.divided)
    curves = [_divided(half, DP_ADMM, budget, metric, x=x) for budget in by_epsilon(scale)] + [
        _divided(half, OURS, shared(scale), metric, x=x)
    ]
    lines = _levels(half, metric, x)
    return Panel("agents", metric, (*curves, *lines), ticks(x), log_x=True)


def _divided(half: Half, name: str, budget: Budget, metric: str, *, x: tuple[float, ...]) -> Curve:
    outcomes = [half.divided[int(agents)][name] for agents in x]
    y = tuple(outcome.at(budget, metric) for outcome in outcomes)
    spent = outcomes[0].spent(budget)
    return Curve(name, (spent,), x, y, outcomes[0].arm.not_private)


def _convergence(half: Half, scale: Scale) -> Figure:
    texts = (
        "How quickly do the agents approach the optimum and one another? The augmented objective "
        "is the sum over agents of their own loss plus rho times their distance from the common "
        "model, at the means of all iterates so far. The bound is what the paper's theorem allows.",
        "the objective falls faster and lower with larger epsilon and with larger delta.",
    )
    panels = [
        _over_rounds(half, scale, by_epsilon(scale)),
        _over_rounds(half, scale, by_delta(scale)),
    ]
    return _figure(half, 1, "convergence under different budgets", texts, panels)


def _over_rounds(half: Half, scale: Scale, budgets: Sequence[Budget]) -> Panel:
    theirs, ours = half.outcomes[DP_ADMM], half.outcomes[PUBLIC]
    drawn = [(theirs, budget) for budget in budgets] + [(ours, shared(scale))]
    curves = [
        Curve(
            outcome.arm.name,
            (outcome.spent(budget),),
            tuple(float(k + 1) for k in range(outcome.arm.rounds)),
            outcome.course(budget),
            outcome.arm.not_private,
        )
        for outcome, budget in drawn
    ]
    lowest = Measured.computed(scale.agents * half.optimum.objective)
    x = (1.0, float(max(scale.rounds, scale.public_rounds)))
    line = level(OPTIMUM, lowest, x, NO_NOISE)
    if scale.regulariser_at == "server":
        return Panel("round", AUGMENTED, (*curves, line), log_y=True)
    spent = theirs.spent(shared(scale))
    rounds = tuple(float(k + 1) for k in range(scale.rounds))
    allowed = tuple(Measured.computed(bound_on(half, scale, shared(scale), int(k))) for k in rounds)
    bound = Curve(_BOUNDS[scale.steps(half.kind)], (spent,), rounds, allowed, reference=True)
    return Panel("round", AUGMENTED, (*curves, bound, line), log_y=True)


def bound_on(half: Half, scale: Scale, budget: Budget, rounds: int) -> float:
    """Return what (32) or (37) allows for the augmented objective, with beta = rho.

    Both are about a regulariser at the agents, and a c_w that is the norm of the optimum.
    """
    l1, weight = half.kind == "l1", scale.weight
    facts = ConsensusFacts(
        agents=scale.agents,
        dimension=half.dimension,
        norm=scale.c_w(half.kind),
        noise=noise_of_round(scale, budget),
        rho=scale.rho,
        beta=scale.rho,
        slope=scale.clip + (weight * math.sqrt(half.dimension) if l1 else 0.0),
        curvature=scale.problem(half.kind).loss.smoothness + (0.0 if l1 else weight),
    )
    bound = consensus_bound if scale.steps(half.kind) == "nonsmooth" else smooth_consensus_bound
    return scale.agents * half.optimum.objective + bound(facts, rounds)


def _comparison(half: Half, scale: Scale) -> Figure:
    texts = (
        "All methods spend the same total budget. Which one predicts best?",
        "DP-ADMM does better than DPSGD"
        + (", PVP and DVP" if half.kind == "l2" else "")
        + "; ADMM without noise is the best that ADMM can do. Larger epsilon and delta help.",
    )
    panels = [
        panel
        for metric in METRICS
        for panel in (_over_epsilon(half, scale, metric), _over_delta(half, scale, metric))
    ]
    return _figure(half, 2, "methods at equal total budgets", texts, panels)


def _over_epsilon(half: Half, scale: Scale, metric: str) -> Panel:
    rounds = zip(by_epsilon(scale), scale.per_round, strict=True)
    places = {s: (s.total, f"{s.total:.3g}\n({each:g})") for s, each in rounds}
    label = f"total epsilon (a round), delta {scale.main_delta:g}"
    return _compared(half, metric, places, label)


def _over_delta(half: Half, scale: Scale, metric: str) -> Panel:
    places = {s: (s.delta, f"{s.delta:g}\n(total {s.total:.3g})") for s in by_delta(scale)}
    label = f"delta (total epsilon), {scale.main_epsilon:g} a round"
    return _compared(half, metric, places, label)


def _compared(
    half: Half, metric: str, places: dict[Budget, tuple[float, str]], label: str
) -> Panel:
    private = [outcome for name, outcome in half.outcomes.items() if name != EXACT]
    drawn = [_over_settings(outcome, metric, places) for outcome in private]
    curves = [curve for curve in drawn if curve.x]
    x = tuple(place for place, _ in places.values())
    exact = half.outcomes[EXACT].at(NO_NOISE, metric)
    lines = [level(EXACT, exact, x, NO_NOISE), *_levels(half, metric, x)]
    logarithmic = metric not in _READINGS.values()
    return Panel(label, metric, (*curves, *lines), tuple(places.values()), True, logarithmic)


def _levels(half: Half, metric: str, x: tuple[float, ...]) -> list[Curve]:
    """Return the optimum, and beside errors what no record is needed for."""
    wrong = metric in _READINGS.values()
    value = half.optimum.error if wrong else half.optimum.loss
    optimum = level(OPTIMUM, Measured.computed(value), x, NO_NOISE)
    return [optimum, commonest_label(half.labels, x, delta=NO_NOISE.delta)] if wrong else [optimum]


def _over_settings(outcome: Outcome, metric: str, places: dict[Budget, tuple[float, str]]) -> Curve:
    """Return the curve over the budgets that the method could meet."""
    met = sorted((s for s in places if s not in outcome.refused), key=lambda s: places[s][0])
    return Curve(
        outcome.arm.name,
        tuple(outcome.spent(budget) for budget in met),
        tuple(places[budget][0] for budget in met),
        tuple(outcome.at(budget, metric) for budget in met),
        outcome.arm.not_private,
    )


_JUDGED: tuple[tuple[str, Whose], ...] = (
    (ERROR, "paper"),
    (LOCAL_LOSS, "paper"),
    (LOSS, "ours"),
)
NO_PLAN = "no amount of noise meets this budget"
_PAPER = (
    "In the paper (MATLAB, 3.4 GHz): ADMM 67 s, PVP 79 to 102 s, DVP 60 to 70 s, DP-ADMM 5 to 7 s. "
)


def times_table(table: Timings, scale: Scale) -> Table:
    """Return Table II as measured on this machine."""
    names = (EXACT, PVP, DVP, DP_ADMM)
    rows = tuple(
        (f"{each:g}", *(table[name][place] or NO_PLAN for name in names))
        for place, each in enumerate(scale.timed)
    )
    return Table(
        "Table II",
        f"Table II: seconds for {scale.rounds} rounds of {scale.agents} agents, on this machine",
        ("epsilon a round", *names),
        rows,
        _PAPER + "Here all agents of a round are computed together by one compiled program; the "
        "exact steps are solved by a fixed number of gradient steps, so the ratio is about that "
        "number. Seconds differ from machine to machine and from run to run.",
    )


def totals_table(half: Half, scale: Scale) -> Table:
    """Return the table that we add: test errors at equal totals, by observer."""
    rows = tuple(
        (
            _row_name(half.outcomes[name]),
            f"{budget.total:.3g}",
            budget.observer,
            _cell(half, name, budget),
        )
        for budget in equal_totals(scale)
        for name in (DP_ADMM, PUBLIC, OURS, DPSGD, PVP, DVP)
    )
    return Table(
        "Our table",
        f"Our table: all methods at equal totals, {scale.agents} agents, delta "
        f"{scale.main_delta:g}, l2",
        ("method", "total epsilon", "observer", ERROR),
        rows,
        "Under messages every link is read; under sum only the mean of all messages is seen, "
        "and secure aggregation is taken on trust. Gradient methods need less noise then. The "
        "ADMM methods do not: their agents ask at private points, so nothing is credited to "
        "summation and the rows are the same runs.",
    )


def _row_name(outcome: Outcome) -> str:
    marks = "".join(f"; {name} not private" for name in outcome.arm.not_private)
    return outcome.arm.name + marks


def _cell(half: Half, name: str, budget: Budget) -> str | Measured:
    outcome = half.outcomes[name]
    return NO_PLAN if budget in outcome.refused else outcome.at(budget, ERROR)


def orderings(half: Half, scale: Scale) -> list[Ordering]:
    """Return the orderings of the three figures of one regulariser, and ours.

    The paper measures the loss at the agents' iterates, and an error it does not say where: that
    is judged under both readings.
    """
    return [*_fewer_agents(half, scale), *_converging(half, scale), *_accuracy(half, scale),
            *_ours(half, scale)]  # fmt: skip


def _read(metric: str, pairs: Callable[[str], Sequence[Pair]]) -> tuple[Pair, ...]:
    """Return the comparisons of a metric, of errors under each reading."""
    if metric != ERROR:
        return tuple(pairs(metric))
    return tuple(
        replace(pair, reading=reading)
        for reading, error in _READINGS.items()
        for pair in pairs(error)
    )


def times(table: Timings, scale: Scale) -> list[Ordering]:
    """Return the ordering of Table II."""
    quick = table[DP_ADMM]
    places = [f"epsilon {each:g} a round" for each in scale.timed]
    found = []
    for name in (EXACT, PVP, DVP):
        both = [(w, q, s) for w, q, s in zip(places, quick, table[name], strict=True) if q and s]
        if both:
            where, ours, theirs = zip(*both, strict=True)
            pairs = below((DP_ADMM, ours), (name, theirs), where)
            found.append(Ordering("Table II", f"DP-ADMM takes less time than {name}", pairs))
    return found


def _fewer_agents(half: Half, scale: Scale) -> list[Ordering]:
    part = name_of(half, 0)
    names = [f"{agents} agents" for agents in half.divided]

    def growing(metric: str) -> list[Pair]:
        return [
            _of_both(pair)
            for budget in by_epsilon(scale)
            for pair in rising(
                _where(budget),
                names,
                [one[DP_ADMM].at(budget, metric) for one in half.divided.values()],
                measure=metric,
            )
        ]

    return [
        Ordering(part, f"more agents, larger {_plain(metric)}", _read(metric, growing), whose)
        for metric, whose in _JUDGED
        if len(names) > 1
    ]


def _converging(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 1), half.outcomes[DP_ADMM]
    claims = {"epsilon": by_epsilon(scale), "delta": by_delta(scale)}
    found = [
        Ordering(
            part,
            f"larger {name}, lower {AUGMENTED} after the last round",
            _helps(outcome, budgets, AUGMENTED),
        )
        for name, budgets in claims.items()
        if len(budgets) > 1
    ]
    if scale.regulariser_at == "server":
        return found
    budgets = all_budgets(scale)
    allowed = [Measured.computed(bound_on(half, scale, s, scale.rounds)) for s in budgets]
    name = _BOUNDS[scale.steps(half.kind)]
    pairs = below(
        (AUGMENTED, [outcome.course(s)[-1] for s in budgets]),
        (name, allowed),
        list(map(_where, budgets)),
    )
    return [*found, Ordering(part, f"{AUGMENTED} after the last round is below {name}", pairs)]


def _accuracy(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 2), half.outcomes[DP_ADMM]
    found = []
    for metric, whose in _JUDGED:
        for name, budgets in (("epsilon", by_epsilon(scale)), ("delta", by_delta(scale))):
            if len(budgets) > 1:
                pairs = _read(metric, partial(_helps, outcome, budgets))
                claim = f"larger {name}, smaller {_plain(metric)} of DP-ADMM"
                found.append(Ordering(part, claim, pairs, whose))
    rivals = (DPSGD, PVP, DVP) if half.kind == "l2" else (DPSGD,)
    for rival in rivals:
        for metric, whose in _JUDGED:
            pairs = _read(metric, partial(_against, half, scale, DP_ADMM, rival))
            claim = f"{_plain(metric)}: DP-ADMM is better than {rival}"
            found += [Ordering(part, claim, pairs, whose)] if pairs else []
    return found


def _ours(half: Half, scale: Scale) -> list[Ordering]:
    """Return our comparisons: public budgets against the published ones, at equal totals."""
    part = name_of(half, 2)
    exact = half.outcomes[EXACT].at(NO_NOISE, ERROR)
    budgets = all_budgets(scale)
    private = [half.outcomes[DP_ADMM].at(s, ERROR) for s in budgets]
    cost = below((EXACT, [exact] * len(budgets)), (DP_ADMM, private), list(map(_where, budgets)))
    claims = [
        Ordering(part, f"{_plain(ERROR)}: {name} is better than {DP_ADMM}",
                 _against(half, scale, name, DP_ADMM, ERROR), "ours")
        for name in (PUBLIC, OURS)
    ]  # fmt: skip
    claim = f"{_plain(ERROR)}: {EXACT} is better than {DP_ADMM}"
    return [*claims, Ordering(part, claim, tuple(map(_of_both, cost)), "ours")]


def _against(half: Half, scale: Scale, better: str, worse: str, metric: str) -> tuple[Pair, ...]:
    """Return the pairs over all budgets that both methods can meet."""
    one, two = half.outcomes[better], half.outcomes[worse]
    budgets = [s for s in all_budgets(scale) if s not in one.refused and s not in two.refused]
    pairs = below(
        (better, [one.at(s, metric) for s in budgets]),
        (worse, [two.at(s, metric) for s in budgets]),
        [_where(s) for s in budgets],
    )
    return tuple(map(_of_both, pairs))


def _of_both(pair: Pair) -> Pair:
    """Return the comparison on the seeds that both numbers have, from 0 on."""
    seeds = min(pair.smaller[1].repetitions, pair.larger[1].repetitions)
    (low, one), (high, two) = pair.smaller, pair.larger
    cut = [Measured.of(value.values[:seeds]) for value in (one, two)]
    return replace(pair, smaller=(low, cut[0]), larger=(high, cut[1]))


def _helps(outcome: Outcome, budgets: Sequence[Budget], metric: str) -> tuple[Pair, ...]:
    """Return the pairs that say: the weaker the guarantee, the smaller the value."""
    # one of the two changes at a time; at one noise level the total falls as delta grows
    ordered = sorted(budgets, key=lambda budget: (budget.delta, budget.total))
    last = {
        s: outcome.course(s)[-1] if metric == AUGMENTED else outcome.at(s, metric) for s in ordered
    }
    named = [(_where(budget), value) for budget, value in last.items()]
    return tuple(Pair(metric, loose, tight) for tight, loose in pairwise(named))


def _plain(metric: str) -> str:
    """Return the name of a metric without its unit."""
    return metric.partition(",")[0]


def _where(budget: Budget) -> str:
    return f"total epsilon {budget.total:.3g}, delta {budget.delta:g}"
