"""Ryu & Kim 2023, private ADMM under constraints: Figures 3 to 7 and Table 1, run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taciturn_papers.reproductions.figure import listed
from taciturn_papers.reproductions.portions import Portions, Results, Work, together
from taciturn_papers.reproductions.reproduction import Reproduction
from taciturn_papers.reproductions.ryu2023 import learning_figures, power_figures, theorems
from taciturn_papers.reproductions.ryu2023.federated import Records, records
from taciturn_papers.reproductions.ryu2023.forecast import grid_seconds, learning_seconds, sentence
from taciturn_papers.reproductions.ryu2023.learning import AT_BOX, AVERAGED, LOSS, Learned, learned
from taciturn_papers.reproductions.ryu2023.power_flow import (
    Answered,
    Published,
    answered,
    published,
)
from taciturn_papers.reproductions.ryu2023.settings import (
    DEFAULT,
    FULL,
    PARTS,
    QUICK,
    GridRuns,
    Learning,
    Scale,
    Section,
    Trial,
)

__all__ = ["DEFAULT", "FULL", "PARTS", "QUICK", "Scale", "build"]


def build(scale: Scale, portions: Portions, *, parts: Sequence[Section] = PARTS) -> Reproduction:
    """Return the reproduction at a scale; all but times is determined by the seeds.

    Parameters
    ----------
    portions
        How it is computed. But for a quick run its first lines say how long it will take.
    parts
        "fl" for Figures 5 to 7, "grid" for Figures 3 and 4 and Table 1.

    Raises
    ------
    DataError
        If the records of a data set are not at hand; nothing has been run then.
    """
    data = [records(run) for run in scale.learning] if "fl" in parts else []
    grids = scale.grids if "grid" in parts else ()
    if scale.name != "quick":
        _announce(scale, data, portions, grids=bool(grids))
    pairs = zip(scale.learning, data, strict=False)
    learning = together([learned(run, one) for run, one in pairs])
    flows = together([published(run) for run in grids])
    answers = together([answered(run) for run in grids])
    bounds = together([theorems.bounded(scale)] if data else [])

    def whole(results: Results) -> _Found:
        return _Found(
            learning.whole(results),
            bounds.whole(results),
            flows.whole(results),
            answers.whole(results),
        )

    parts_of_it = (*bounds.portions, *learning.portions, *flows.portions, *answers.portions)
    work = Work(parts_of_it, whole)
    return _written(scale, parts, portions.done(work))


class _Found(NamedTuple):
    """What was measured, of the parts that were run."""

    learning: list[Learned]
    bounds: list[list[theorems.Bounded]]
    flows: list[Published]
    answers: list[Answered]


def _announce(scale: Scale, data: list[Records], portions: Portions, *, grids: bool) -> None:
    """Say where the run stands, and how long it will take from a little that is run and timed."""
    expected: dict[str, float] = {}
    for run, one in zip(scale.learning, data, strict=False):
        portions.report(extent(run, one))
        expected[run.data] = learning_seconds(run, one)
    if grids:
        expected |= {run.case: grid_seconds(run) for run in scale.grids}
    for what, seconds in expected.items():
        portions.report(sentence(what, seconds))
    portions.report(sentence("all of it", sum(expected.values())))


def extent(run: Learning, one: Records) -> str:
    """Return how much of the paper's learning is run, in one sentence."""
    whole = {"mnist": "60,000 records", "femnist": "36,708 records of 195 writers"}.get(run.data)
    theirs = f", where the paper has {whole} and 5,000 rounds" if whole else ""
    return (
        f"{run.data}: {one.total:,} records of {len(one.counts)} agents and {run.rounds:,} rounds"
        f"{theirs}."
    )


def _written(scale: Scale, parts: Sequence[Section], found: _Found) -> Reproduction:
    learning, flows, answers = found.learning, found.flows, found.answers
    seeds = [run.seeds for run in scale.learning] if learning else []
    seeds += [max(run.seeds, run.question_seeds) for run in scale.grids] if flows else []
    return Reproduction(
        paper="ryu2023",
        title=TITLE,
        run=_run(scale, learning, parts),
        problem=PROBLEM,
        settings=settings_of(scale, parts),
        seeds=tuple(range(max(seeds))),
        figures=(
            *(power_figures.figures(flows, answers) if flows else ()),
            *(learning_figures.figures(learning) if learning else ()),
            *map(theorems.figure, found.bounds),
        ),
        tables=(power_figures.table(flows),) if flows else (),
        orderings=(
            *(power_figures.orderings(flows, answers) if flows else ()),
            *(learning_figures.orderings(learning) if learning else ()),
            *(claim for one in found.bounds for claim in theorems.orderings(one)),
        ),
        notes=notes(scale, learning, flows, answers),
    )


TITLE = "Ryu & Kim 2023, differentially private ADMM under constraints"
PROBLEM = (
    "Several parties want one common answer without showing their data: hospitals that train one "
    "classifier on their images, or zones of a power network that agree on one state of it while "
    "each hides the demand of its customers. In ADMM each party improves an answer of its own and "
    "is pulled towards the mean of all; only answers travel. Answers still tell of data, so noise "
    "is added. Here answers must also obey constraints: weights in a box, or the physics of a "
    "power network.",
    "The paper adds the noise to the gradient before a step is made and projected into the "
    "constraints (objective perturbation: ObjG with normal noise, ObjL with Laplace noise), so "
    "that every answer obeys them. It compares this with the usual way, noise on the finished "
    "answer (output perturbation: OutG, OutL), which may break them. A party may make E steps, "
    "local updates, before it sends anything.",
    "Privacy is counted by epsilon and delta: the smaller, the less can be learned about any one "
    "record. The paper states epsilon for one update. What counts is the total of all updates, "
    "which is computed for every curve here.",
)


def _run(scale: Scale, learning: Sequence[Learned], parts: Sequence[Section]) -> str:
    name = {"quick": "a quick run", "default": "a run for one computer", "full": "the full run"}
    counts = [f"{one.one.total:,} records of {one.name}" for one in learning]
    grids = [run.case for run in scale.grids] if "grid" in parts else []
    return f"{name[scale.name]} on {' and '.join([*counts, *grids])}"


def settings_of(scale: Scale, parts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the settings of all runs as (name, value)."""
    rows: list[tuple[str, str]] = [("scale", scale.name)]
    if "fl" in parts:
        rows += [
            *map(_learning_row, scale.learning),
            ("federated learning", "multinomial logistic regression, eta_t = 1/sqrt(t), rho_t by "
             "(E.1), weights in a box; one record of one agent is replaced by any other; every "
             "message is seen"),
            ("theorems", f"{scale.bound_rounds} rounds, {scale.bound_runs} runs"),
        ]  # fmt: skip
    if "grid" in parts:
        rows += [
            *map(_grid_row, scale.grids),
            ("power flow", "as published: linearised; our questions: the public Hessian, rho = "
             "0.3; every message is seen"),
        ]  # fmt: skip
    return tuple(rows)


def _learning_row(run: Learning) -> tuple[str, str]:
    first, private, period = run.rho
    return (
        run.data,
        f"{run.rounds} rounds, E in {listed(run.updates)}, epsilon of one update in "
        f"{listed(run.per_update)}, delta {run.delta:g}, {run.seeds} repetitions; c_1 = {first:g}, "
        f"c_2 = {private:g}, T_c = {period:g}; u = {listed(run.box)}, and {run.binding_box} to "
        f"bind; records of norm at most {run.record_norm:g}, longer ones are scaled down",
    )


def _grid_row(run: GridRuns) -> tuple[str, str]:
    return (
        run.case,
        f"as published: {run.rounds} rounds, E in {listed(run.updates)}, epsilon of one update "
        f"in {listed(run.per_update)}, rho = {run.rho:g}, eta_t = {run.step:g} / sqrt(t), "
        f"{run.seeds} repetitions; questions: {run.question_rounds} rounds, E = 1, total epsilon "
        f"in {listed(run.totals)}, {run.question_seeds} repetitions, {run.readings} readings of "
        f"the attacker; one demand of one bus moves by at most {run.beta:g} per unit, delta "
        f"{run.delta:g}",
    )


def notes(
    scale: Scale, learned: Sequence[Learned], runs: Sequence[Published], answers: Sequence[Answered]
) -> tuple[str, ...]:
    """Return the sentences that a fair reader needs; numbers in them are measured."""
    return (
        *([" ".join(extent(one.run, one.one) for one in learned)] if learned else []),
        *_of_scale(scale),
        *(text for one in learned for text in _of_learning(one)),
        *(_LEARNING if learned else ()),
        *(_of_questions(one) for one in answers),
        *(_GRID if runs else ()),
        "The text of the paper was at hand, its drawings were not: which quantities lie on which "
        "axes follows the text, and only orderings are compared, never heights of curves.",
        "Repetition r draws its noise from seed r; budgets share the draws, scaled to what each "
        "needs. Spreads are standard deviations over repetitions. Totals hold for noise that is "
        "secret; here seeds are given.",
    )


def _of_scale(scale: Scale) -> tuple[str, ...]:
    if scale.name == "full":
        return ()
    kind = {"quick": "A quick run, a test drive", "default": "A run for one computer"}[scale.name]
    changed = (
        " It also takes few of the records: noise on the mean is as much larger as records are "
        "fewer." if scale.name == "quick" else ""
    )  # fmt: skip
    return (
        f"{kind}: the paper makes 5,000 rounds of learning and 100 of power flow; how many were "
        "made here stands under Settings. A run of fewer rounds is the beginning of the paper's "
        f"run, and spends less.{changed} --full runs the paper's scale.",
    )


def _of_learning(one: Learned) -> tuple[str, ...]:
    run, records = one.run, one.one
    texts = [
        f"{records.title}. {len(records.counts)} agents, {records.total:,} training records "
        f"({min(records.counts)} to {max(records.counts)} each); {100 * records.shortened:.0f} % "
        f"of them are longer than {run.record_norm:g} and were scaled down to that. Weights lie in "
        f"[-u, u] with u = {listed(run.box)}.",
    ]
    if one.rivals:
        obj, out = one.rivals[0]
        trials = [Trial(obj, e, each) for e in run.updates for each in run.per_update]
        gaps = [one.samples[t, LOSS] - one.samples[t._replace(arm=out), LOSS] for t in trials]
        same = sum(not np.any(gap) for gap in gaps)
        most = max(one.at(trial, AT_BOX).mean for trial in trials)
        texts.append(
            f"{one.name}: where no agent's weight reaches the box, Obj, Out and Out projected are "
            "the same run: the step shortens the noise of Obj by as much as the sensitivity of "
            f"Out. That is so at {same} of {len(trials)} settings, where their order says nothing; "
            f"at the end at most {100 * most:.2g} % of the weights of a common model lay at the "
            "box. A second reading has a smaller box, which binds earlier."
        )
    return tuple(texts)


_LEARNING = (
    "The paper's calibrations of ObjG and OutG amount to the same noise in units of the gradient, "
    "so one set of runs answers both comparisons: as published, and at equal gradient noise.",
    "(6.4) takes the largest change over the records that are there, at each iterate, and counts a "
    "record that is added: such a number is itself private, and too small for a record that is "
    "replaced. Here it is its supremum, 2 sqrt(2) times the norm bound over the number of records.",
    "The noise of FEMNIST is that of as many records as were used.",
    f"{AVERAGED}: the outputs are averaged as Theorem 5.4 says. Its constants are public: U_1 from "
    "the norm bound, U_2 from the box, the noise, and gamma = 2 sqrt(P) U_1, which is at least "
    "twice the norm of an optimal dual. Theorems 5.3 and 5.5 have steps that the paper's figures "
    "do not use; all three are drawn beside runs on a small problem. U_2 in (5.1c) is of one "
    "agent, the proofs need that of all: see taciturn claims ryu2023/thm5.3-5.4.",
)
_GRID = (
    "Totals of Figures 3 and 4 are computed, not published: normal noise composes exactly with the "
    "sensitivity 2 beta |a_i| of a gradient, Laplace noise with the accountant's bound for the "
    "1-norm. A noised solution moves by at most 2 beta |a_i| / sqrt(t), in the 1-norm by at most "
    "sqrt(n) times that; the totals of OutG and OutL are upper bounds for that reason.",
    "The paper says that beta is 1 %; here it is 0.01 per unit. A share of each demand would make "
    "the noise tell of the demand. Its division of the networks is not given: case118 in its three "
    "areas (8 ties), case14 in three zones of ours (5 ties).",
    "1/eta = sqrt(t) is below the curvature of the objective, 10 for case14 and 26 for case118, "
    "for many rounds, so the published run first climbs; the constraints keep it bounded. At large "
    "epsilon most of the objective is that of a run that has not finished: the four arms differ "
    "little there, and their order tells little.",
    "(D.2f) to (D.2i) as printed add w_ji^RI and w_ij^RI; the flows of a line have their "
    "difference (taciturn claims ryu2023/flows), which is what is run here. The text under (6.1) "
    "has a'z = d where the objective has a'z + d; it is a'z + d = 0 here.",
    "Repeated answers that are averaged lead the attacker's last reading to the average of all, so "
    "the mean of its readings is no better there; where zones use the last look alone, it is.",
)


def _of_questions(one: Answered) -> str:
    return (
        f"{one.run.case}: the attacker could read {100 * one.readable:.0f} % of the demands from "
        f"the last round. Guessing that there is no demand has the error {one.demand:.3g} per "
        f"unit; without noise the objective is {one.floor:.2g} after as many rounds."
    )
