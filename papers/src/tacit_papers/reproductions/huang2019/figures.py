"""Figures 1 to 6, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel
from tacit_papers.reproductions.huang2019.arms import DP_ADMM, EXACT, OURS, PUBLIC
from tacit_papers.reproductions.huang2019.measured import Half, by_delta, by_epsilon, main_setting
from tacit_papers.reproductions.huang2019.settings import DELTA, NO_NOISE, PER_ROUND, Scale, Setting
from tacit_papers.reproductions.huang2019.trial import ERROR, LOSS, OWN_LOSS, Outcome

_NAMES = {"l1": "l1 regulariser, non-smooth schedule (29)", "l2": "l2 regulariser, schedule (34)"}
_FIRST = {"l1": 1, "l2": 4}
_OPEN = Budget(NO_NOISE.total, NO_NOISE.delta, NO_NOISE.observer)
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
    curves = [_divided(half, DP_ADMM, setting, metric, x=x) for setting in by_epsilon(scale)] + [
        _divided(half, OURS, main_setting(scale), metric, x=x)
    ]
    ticks = tuple((agents, f"{agents:g}") for agents in x)
    return Panel("agents", metric, (*curves, _optimum(half, metric, x)), ticks, log_x=True)


def _divided(
    half: Half, name: str, setting: Setting, metric: str, *, x: tuple[float, ...]
) -> Curve:
    outcomes = [half.divided[int(agents)][name] for agents in x]
    y = tuple(outcome.at(setting, metric) for outcome in outcomes)
    budget = outcomes[0].budget(setting)
    return Curve(name, (budget,), x, y, outcomes[0].arm.not_private)


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


def _over_rounds(half: Half, scale: Scale, settings: Sequence[Setting]) -> Panel:
    theirs, ours = half.outcomes[DP_ADMM], half.outcomes[PUBLIC]
    drawn = [(theirs, setting) for setting in settings] + [(ours, main_setting(scale))]
    curves = [
        Curve(
            outcome.arm.name,
            (outcome.budget(setting),),
            tuple(float(k + 1) for k in range(outcome.arm.rounds)),
            outcome.by_round(setting),
            outcome.arm.not_private,
        )
        for outcome, setting in drawn
    ]
    level = Measured(scale.agents * half.optimum.objective, 0.0, 1)
    x = (1.0, float(max(scale.rounds, scale.public_rounds)))
    line = Curve(OPTIMUM, (_OPEN,), x, (level, level), reference=True)
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
    half: Half, metric: str, places: dict[Setting, tuple[float, str]], label: str
) -> Panel:
    private = [outcome for name, outcome in half.outcomes.items() if name != EXACT]
    curves = [_over_settings(outcome, metric, places) for outcome in private]
    x = tuple(sorted(place for place, _ in places.values()))
    exact = half.outcomes[EXACT].at(NO_NOISE, metric)
    ends = (x[0], x[-1])
    lines = [Curve(EXACT, (_OPEN,), ends, (exact, exact), reference=True)]
    lines += [_optimum(half, metric, ends)]
    logarithmic = metric != ERROR
    return Panel(label, metric, (*curves, *lines), tuple(places.values()), True, logarithmic)


def _over_settings(
    outcome: Outcome, metric: str, places: dict[Setting, tuple[float, str]]
) -> Curve:
    """Return the curve over the settings that the method could meet."""
    met = sorted((s for s in places if s not in outcome.refused), key=lambda s: places[s][0])
    return Curve(
        outcome.arm.name,
        tuple(outcome.budget(setting) for setting in met),
        tuple(places[setting][0] for setting in met),
        tuple(outcome.at(setting, metric) for setting in met),
        outcome.arm.not_private,
    )


def _optimum(half: Half, metric: str, x: tuple[float, ...]) -> Curve:
    value = half.optimum.error if metric == ERROR else half.optimum.loss
    level = Measured(value, 0.0, 1)
    return Curve(OPTIMUM, (_OPEN,), x, (level,) * len(x), reference=True)
