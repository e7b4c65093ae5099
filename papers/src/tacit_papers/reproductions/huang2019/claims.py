"""What the paper says comes out, and what we compare beside it; decided by measured numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.huang2019.arms import DP_ADMM, DPSGD, DVP, EXACT, OURS, PUBLIC, PVP
from tacit_papers.reproductions.huang2019.figures import name_of
from tacit_papers.reproductions.huang2019.measured import Half, by_delta, by_epsilon
from tacit_papers.reproductions.huang2019.settings import NO_NOISE, Scale, Setting
from tacit_papers.reproductions.huang2019.timing import Timings
from tacit_papers.reproductions.huang2019.trial import AUGMENTED, ERROR, LOSS, OWN_LOSS
from tacit_papers.reproductions.ordering import Ordering, Pair, below, rising

_METRICS = (ERROR, LOSS, OWN_LOSS)


def orderings(half: Half, scale: Scale) -> list[Ordering]:
    """Return the orderings of the three figures of one regulariser, and ours."""
    return [*_agents(half, scale), *_convergence(half, scale), *_accuracy(half, scale),
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


def _agents(half: Half, scale: Scale) -> list[Ordering]:
    part = name_of(half, 0)
    names = [f"{agents} agents" for agents in half.divided]
    found = []
    for metric in (ERROR, LOSS):
        pairs = [
            pair
            for setting in by_epsilon(scale)
            for pair in rising(
                _where(setting),
                names,
                [one[DP_ADMM].at(setting, metric) for one in half.divided.values()],
                measure=metric,
            )
        ]
        found.append(Ordering(part, f"more agents, larger {_plain(metric)}", tuple(pairs)))
    return found


def _convergence(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 1), half.outcomes[DP_ADMM]
    claims = {"epsilon": by_epsilon(scale), "delta": by_delta(scale)}
    return [
        Ordering(
            part,
            f"larger {name}, lower {AUGMENTED} after the last round",
            _helps(settings, [outcome.by_round(s)[-1] for s in settings], AUGMENTED),
        )
        for name, settings in claims.items()
    ]


def _accuracy(half: Half, scale: Scale) -> list[Ordering]:
    part, outcome = name_of(half, 2), half.outcomes[DP_ADMM]
    found = []
    for metric in _METRICS:
        for name, settings in (("epsilon", by_epsilon(scale)), ("delta", by_delta(scale))):
            pairs = _helps(settings, [outcome.at(s, metric) for s in settings], metric)
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
    """Return our comparisons: public settings against the published ones, at equal totals."""
    part = name_of(half, 2)
    exact = half.outcomes[EXACT].at(NO_NOISE, ERROR)
    settings = _all(scale)
    private = [half.outcomes[DP_ADMM].at(s, ERROR) for s in settings]
    cost = below((EXACT, [exact] * len(settings)), (DP_ADMM, private), list(map(_where, settings)))
    claims = [
        Ordering(part, f"{_plain(ERROR)}: {name} is better than {DP_ADMM}",
                 _against(half, scale, name, DP_ADMM, ERROR), "ours")
        for name in (PUBLIC, OURS)
    ]  # fmt: skip
    return [
        *claims,
        Ordering(part, f"{_plain(ERROR)}: {EXACT} is better than {DP_ADMM}", cost, "ours"),
    ]


def _all(scale: Scale) -> list[Setting]:
    return list(dict.fromkeys((*by_epsilon(scale), *by_delta(scale))))


def _against(half: Half, scale: Scale, better: str, worse: str, metric: str) -> tuple[Pair, ...]:
    """Return the pairs over all settings that both methods can meet."""
    one, two = half.outcomes[better], half.outcomes[worse]
    settings = [s for s in _all(scale) if s not in one.refused and s not in two.refused]
    return below(
        (better, [one.at(s, metric) for s in settings]),
        (worse, [two.at(s, metric) for s in settings]),
        [_where(s) for s in settings],
    )


def _helps(
    settings: Sequence[Setting], values: Sequence[Measured], measure: str
) -> tuple[Pair, ...]:
    """Return the pairs that say: the weaker the guarantee, the smaller the value."""
    # one of the two changes at a time; at one noise level the total falls as delta grows
    ordered = sorted(
        zip(settings, values, strict=True), key=lambda item: (item[0].delta, item[0].total)
    )
    named = [(_where(setting), value) for setting, value in ordered]
    return tuple(Pair(measure, loose, tight) for tight, loose in pairwise(named))


def _plain(metric: str) -> str:
    """Return the name of a metric without its unit."""
    return metric.partition(",")[0]


def _where(setting: Setting) -> str:
    return f"total epsilon {setting.total:.3g}, delta {setting.delta:g}"
