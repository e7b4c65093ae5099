"""Figures 1 to 6 and the tables, and the orderings that they decide."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

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
    LOSS,
    OURS,
    OWN_LOSS,
    PUBLIC,
    PVP,
    Outcome,
)
from taciturn_papers.reproductions.huang2019.runs import Half, Timings
from taciturn_papers.reproductions.huang2019.settings import (
    DELTA,
    NO_NOISE,
    PER_ROUND,
    Scale,
    by_delta,
    by_epsilon,
    equal_totals,
    shared,
)
from taciturn_papers.reproductions.ordering import Ordering, Pair, below, rising

_NAMES = {"l1": "l1 regulariser, non-smooth schedule (29)", "l2": "l2 regulariser, schedule (34)"}
_FIRST = {"l1": 1, "l2": 4}
OPTIMUM = "centralised optimum"


def figures(half: Half, scale: Scale) -> tuple[Figure, Figure, Figure]:
    """Return Figures 1 to 3 (l1) or 4 to 6 (l2)."""
    return _agents(half, scale), _convergence(half, scale), _comparison(half, scale)


def name_of(half: Half, place: int) -> str:
    """Return "Figure 4" for the first figure of the l2 half."""
    return f"Figure {_FIRST[half.kind] + place}"


def _figure(
    half: Half, place: int, topic: str, texts: tuple[str, str], panels: Sequence[Panel]
) -> Figure:
    name = name_of(half, place)
    title = f"{name}: {topic} ({_NAMES[half.kind]})"
    return Figure(name, title, texts[0], texts[1], tuple(panels))


def _agents(half: Half, scale: Scale) -> Figure:
    texts = (
        f"The same {scale.records:,} records are dealt out among more and more agents. Each agent "
        "hides one of its records, so the fewer it has the more noise it adds. How much accuracy "
        "does that cost?",
        "accuracy falls as the number of agents grows.",
    )
    panels = [_over_agents(half, scale, metric) for metric in (ERROR, LOSS)]
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
        "model, at the means of all iterates so far.",
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
    return Panel("round", "augmented objective", (*curves, line))


def _comparison(half: Half, scale: Scale) -> Figure:
    texts = (
        "All methods spend the same total budget. Which one predicts best?",
        "DP-ADMM does better than DPSGD"
        + (", PVP and DVP" if half.kind == "l2" else "")
        + "; ADMM without noise is the best that ADMM can do. Larger epsilon and delta help.",
    )
    panels = [
        panel
        for metric in (ERROR, LOSS, OWN_LOSS)
        for panel in (_over_epsilon(half, scale, metric), _over_delta(half, scale, metric))
    ]
    return _figure(half, 2, "methods at equal total budgets", texts, panels)


def _over_epsilon(half: Half, scale: Scale, metric: str) -> Panel:
    rounds = zip(by_epsilon(scale), scale.per_round, strict=True)
    places = {s: (s.total, f"{s.total:.3g}\n({each:g})") for s, each in rounds}
    label = f"total epsilon (a round), delta {DELTA:g}"
    return _compared(half, metric, places, label)


def _over_delta(half: Half, scale: Scale, metric: str) -> Panel:
    places = {s: (s.delta, f"{s.delta:g}\n(total {s.total:.3g})") for s in by_delta(scale)}
    return _compared(half, metric, places, f"delta (total epsilon), {PER_ROUND:g} a round")


def _compared(
    half: Half, metric: str, places: dict[Budget, tuple[float, str]], label: str
) -> Panel:
    private = [outcome for name, outcome in half.outcomes.items() if name != EXACT]
    curves = [_over_settings(outcome, metric, places) for outcome in private]
    x = tuple(place for place, _ in places.values())
    exact = half.outcomes[EXACT].at(NO_NOISE, metric)
    lines = [level(EXACT, exact, x, NO_NOISE), *_levels(half, metric, x)]
    logarithmic = metric != ERROR
    return Panel(label, metric, (*curves, *lines), tuple(places.values()), True, logarithmic)


def _levels(half: Half, metric: str, x: tuple[float, ...]) -> list[Curve]:
    """Return the optimum, and beside errors what no record is needed for."""
    value = half.optimum.error if metric == ERROR else half.optimum.loss
    optimum = level(OPTIMUM, Measured.computed(value), x, NO_NOISE)
    if metric != ERROR:
        return [optimum]
    return [optimum, commonest_label(half.labels, x, delta=DELTA)]


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
        f"Our table: all methods at equal totals, {scale.agents} agents, delta 1e-05, l2",
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


_METRICS = (ERROR, LOSS, OWN_LOSS)


def orderings(half: Half, scale: Scale) -> list[Ordering]:
    """Return the orderings of the three figures of one regulariser, and ours."""
    return [*_fewer_agents(half, scale), *_converging(half, scale), *_accuracy(half, scale),
            *_ours(half, scale)]  # fmt: skip


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
    found = []
    for metric in (ERROR, LOSS):
        pairs = [
            pair
            for budget in by_epsilon(scale)
            for pair in rising(
                _where(budget),
                names,
                [one[DP_ADMM].at(budget, metric) for one in half.divided.values()],
                measure=metric,
            )
        ]
        found.append(Ordering(part, f"more agents, larger {_plain(metric)}", tuple(pairs)))
    return found


def _converging(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 1), half.outcomes[DP_ADMM]
    claims = {"epsilon": by_epsilon(scale), "delta": by_delta(scale)}
    return [
        Ordering(
            part,
            f"larger {name}, lower {AUGMENTED} after the last round",
            _helps(budgets, [outcome.course(s)[-1] for s in budgets], AUGMENTED),
        )
        for name, budgets in claims.items()
    ]


def _accuracy(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 2), half.outcomes[DP_ADMM]
    found = []
    for metric in _METRICS:
        for name, budgets in (("epsilon", by_epsilon(scale)), ("delta", by_delta(scale))):
            pairs = _helps(budgets, [outcome.at(s, metric) for s in budgets], metric)
            found.append(
                Ordering(part, f"larger {name}, smaller {_plain(metric)} of DP-ADMM", pairs)
            )
    rivals = (DPSGD, PVP, DVP) if half.kind == "l2" else (DPSGD,)
    for rival in rivals:
        for metric in (ERROR, LOSS, OWN_LOSS):
            claim = f"{_plain(metric)}: DP-ADMM is better than {rival}"
            found.append(Ordering(part, claim, _against(half, scale, DP_ADMM, rival, metric)))
    return found


def _ours(half: Half, scale: Scale) -> list[Ordering]:
    """Return our comparisons: public budgets against the published ones, at equal totals."""
    part = name_of(half, 2)
    exact = half.outcomes[EXACT].at(NO_NOISE, ERROR)
    budgets = _all(scale)
    private = [half.outcomes[DP_ADMM].at(s, ERROR) for s in budgets]
    cost = below((EXACT, [exact] * len(budgets)), (DP_ADMM, private), list(map(_where, budgets)))
    claims = [
        Ordering(part, f"{_plain(ERROR)}: {name} is better than {DP_ADMM}",
                 _against(half, scale, name, DP_ADMM, ERROR), "ours")
        for name in (PUBLIC, OURS)
    ]  # fmt: skip
    return [
        *claims,
        Ordering(part, f"{_plain(ERROR)}: {EXACT} is better than {DP_ADMM}", cost, "ours"),
    ]


def _all(scale: Scale) -> list[Budget]:
    return list(dict.fromkeys((*by_epsilon(scale), *by_delta(scale))))


def _against(half: Half, scale: Scale, better: str, worse: str, metric: str) -> tuple[Pair, ...]:
    """Return the pairs over all budgets that both methods can meet."""
    one, two = half.outcomes[better], half.outcomes[worse]
    budgets = [s for s in _all(scale) if s not in one.refused and s not in two.refused]
    return below(
        (better, [one.at(s, metric) for s in budgets]),
        (worse, [two.at(s, metric) for s in budgets]),
        [_where(s) for s in budgets],
    )


def _helps(budgets: Sequence[Budget], values: Sequence[Measured], measure: str) -> tuple[Pair, ...]:
    """Return the pairs that say: the weaker the guarantee, the smaller the value."""
    # one of the two changes at a time; at one noise level the total falls as delta grows
    ordered = sorted(
        zip(budgets, values, strict=True), key=lambda item: (item[0].delta, item[0].total)
    )
    named = [(_where(budget), value) for budget, value in ordered]
    return tuple(Pair(measure, loose, tight) for tight, loose in pairwise(named))


def _plain(metric: str) -> str:
    """Return the name of a metric without its unit."""
    return metric.partition(",")[0]


def _where(budget: Budget) -> str:
    return f"total epsilon {budget.total:.3g}, delta {budget.delta:g}"
