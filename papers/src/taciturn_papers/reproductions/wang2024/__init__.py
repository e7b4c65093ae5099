"""Wang et al. 2024, DP-RECAL, relays without a server: Tables I to V and Figures 2 to 9."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from taciturn.datasets import load
from taciturn.network import ring, uniform_walk
from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import listed
from taciturn_papers.reproductions.gallery import gallery_html
from taciturn_papers.reproductions.portions import Arrays, Portion, Portions, Work, together
from taciturn_papers.reproductions.reproduction import Picture, Reproduction, run_named
from taciturn_papers.reproductions.wang2024.as_printed import Leak, leaks
from taciturn_papers.reproductions.wang2024.costs import Scaling, scaling
from taciturn_papers.reproductions.wang2024.figures import (
    figures,
    leak_figure,
    of_leaks,
    of_scaling,
    orderings,
    spending_svg,
)
from taciturn_papers.reproductions.wang2024.pictures import images
from taciturn_papers.reproductions.wang2024.runs import (
    Cell,
    Solved,
    Tasks,
    cells,
    exactly_solved,
    optima,
)
from taciturn_papers.reproductions.wang2024.settings import (
    AGENTS,
    AT_TWELVE,
    BUDGETS,
    DECAY,
    DELTA,
    EQUAL,
    FULL,
    OUR_DELTA,
    OUR_TOTALS,
    OURS,
    PUBLISHED,
    QUICK,
    Scale,
)
from taciturn_papers.reproductions.wang2024.tables import (
    comparison_table,
    fair_tables,
    optima_table,
    scaling_tables,
)

__all__ = ["FULL", "QUICK", "Scale", "build"]


def build(scale: Scale, portions: Portions) -> Reproduction:
    """Return the reproduction at a scale; all but times is determined by the seeds."""
    found = portions.done(_measured(portions.done(optima(scale)), scale))
    leaked = _leaked()
    return Reproduction(
        paper="wang2024",
        title=TITLE,
        run=_run(scale),
        problem=PROBLEM,
        settings=settings_of(scale),
        seeds=tuple(range(scale.repetitions)),
        figures=(*figures(found.cells, scale.losses), leak_figure(leaked)),
        tables=(
            *fair_tables(found.cells, found.solved, scale),
            *(comparison_table(found.cells, loss) for loss in scale.losses),
            optima_table(found.cells),
            *scaling_tables(found.costs, scale),
        ),
        orderings=(
            *orderings(found.cells, scale.losses),
            *of_leaks(leaked),
            *of_scaling(found.costs, scale),
        ),
        notes=notes(scale),
        pictures=(_spending(found.cells[0], scale), *found.attacked),
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """All that was run, before anything is drawn of it."""

    cells: list[Cell]
    solved: dict[str, Solved]
    costs: Scaling
    attacked: list[Picture]


def _measured(tasks: Tasks, scale: Scale) -> Work[_Measured]:
    every, solved = cells(tasks, scale), exactly_solved(tasks, scale)
    costs, attacked = scaling(scale), together([_attacked(name) for name in scale.images])
    return Work(
        (*every.portions, *solved.portions, *costs.portions, *attacked.portions),
        lambda found: _Measured(
            every.whole(found), solved.whole(found), costs.whole(found), attacked.whole(found)
        ),
    )


def _attacked(name: str) -> Work[Picture]:
    """Return the pictures of Figures 4, 7 and 8."""

    def compute() -> dict[str, HostArray]:
        made = images(load(name, interval="unit"), seed=0, quick=True)
        texts = (made.id, made.title, made.question, gallery_html(made))
        return {"texts": np.array([json.dumps([*texts, made.to_dict()])])}

    def whole(found: Arrays) -> Picture:
        return Picture(*json.loads(str(found["texts"][0])))

    return Work.of(Portion(f"Figures 4, 7 and 8: {name}", (name, "pictures"), compute), whole)


def _leaked() -> tuple[Leak, ...]:
    """Return the attack on one record of each agent, a positive one first."""
    data = load("ijcnn1")
    chosen = np.flatnonzero(data.targets == 1)[:AGENTS]
    rows = data.features[chosen]
    return leaks(rows / np.linalg.norm(rows, axis=1, keepdims=True), data.targets[chosen])


def _spending(cell: Cell, scale: Scale) -> Picture:
    outcome = cell.outcomes["RECAL", AT_TWELVE]
    graph = ring(AGENTS)
    counts = uniform_walk(graph, scale.hops, seed=0).counts
    return Picture(
        "Spending",
        "Who spends what on a random walk",
        f"RECAL at total epsilon {EQUAL:g}: exact epsilon of each agent, and how often it was "
        "asked. The budget binds for the agent asked most; the others spend less. Counts are fixed "
        "by a public walk before a record is touched.",
        spending_svg(graph, outcome.per_agent, counts.tolist()),
        {"epsilon": list(outcome.per_agent), "asked": counts.tolist()},
    )


TITLE = "Wang et al. 2024, DP-RECAL"
PROBLEM = (
    "Eight agents stand on a ring. Each holds records that it will not show, there is no server, "
    "and together they want one linear rule. By gossip all of them work in every round and tell "
    "their neighbours. On a relay one of them holds a token, improves it on its own records and "
    "passes it on.",
    "The paper proposes DP-RECAL, a relay method that adds noise to one of the two vectors of the "
    "token. It counts how often an agent is asked (the privacy leakage frequency, PLF) and says "
    "that fewer questions cost less privacy, which is right. But its noise is in the wrong place: "
    "what an agent keeps is exact. Whoever reads the links recovers, without a regulariser, every "
    "gradient but each agent's last one, and with |x|_1 differences of gradients where the model "
    "is not 0. So the published form has no privacy, whatever epsilon it claims.",
    "The sound form asks for a noised gradient and runs the same recursion on it. Everything here "
    "that carries an epsilon is a sound form, with the total computed exactly; what is published "
    "is shown beside it and says what it claims.",
)


def _run(scale: Scale) -> str:
    name = run_named(scale, quick=QUICK, full=FULL)
    sets = f"{len(scale.sets)} data sets" if len(scale.sets) > 1 else scale.sets[0]
    return f"{name} on at most {scale.records:,} records of {sets}"


def settings_of(scale: Scale) -> tuple[tuple[str, str], ...]:
    """Return the settings of all runs as (name, value)."""
    return (
        ("data", ", ".join(scale.sets) + f"; at most {scale.records:,} training records each"),
        ("features", "as published, each row clipped to norm 1; labels -1 and 1"),
        ("network", f"a ring of {AGENTS} agents; Metropolis weights, or uniform random walks"),
        ("weights of |x|_1 and |x|^2 / 2", f"{OURS[0]:g} and {OURS[1]:g}; the paper's: "
         f"{PUBLISHED[0]:g} and {PUBLISHED[1]:g}"),
        ("budgets", f"epsilon {listed(BUDGETS)} and {EQUAL:g} at delta {DELTA:g} (the paper's); "
         f"{listed(OUR_TOTALS)} at delta {OUR_DELTA:g} (ours)"),
        ("neighbouring data sets", "one record of one agent is replaced by any other"),
        ("observer", "messages: every link is read"),
        ("bound on a record's coefficient", "linear 2, logistic 1: as large as a residual can be "
         "while predictions lie in [-1, 1], and the Lipschitz constant"),
        ("RECAL", f"{scale.hops:,} hops of 3 vectors; every other sound method without a "
         "trusted holder sends as many vectors, a published one two thirds of it"),
        ("step sizes", "each method's own, from public facts; nothing was tuned"),
        ("published methods", f"c = that bound, R = {DECAY:g} (the paper names neither), reading A "
         "of Algorithm 1; alpha = 1.8 / (L + 1), for gossip 1 / (L + 1); PLF of gossip "
         f"{scale.hops // AGENTS}"),
        ("repetitions", f"{scale.repetitions} walks and noises on one split; "
         f"{scale.published_repetitions} of published methods"),
    )  # fmt: skip


def notes(scale: Scale) -> tuple[str, ...]:
    """Return the sentences that a fair reader needs."""
    return (
        *_of_scale(scale),
        "Figures 4, 7 and 8 are pictures: in the full run, and by `taciturn attack mnist`. Figure "
        "9 "
        "is answered by exact recovery instead of an attack by optimisation.",
        "With the paper's weights 0 is the optimum (see the table of optima), and a prox that cuts "
        "to 0 whatever lies below its threshold returns it exactly under moderate noise. Relative "
        "errors near 1e-15 are that, and say nothing about accuracy.",
        "The paper's noise is calibrated to a bound on the whole gradient, not on one record's "
        "share of it, and is therefore far larger than a record needs. That DP-RECAL's claimed "
        "total is met by exact recovery nevertheless shows that the size of noise was never the "
        "point.",
        "For DP-EXTRA and DP-NIDS the paper prints no sensitivity. Here their messages are charged "
        "for one step's change, by the rule of its Lemma 5; taciturn claims wang2024/dp-nids shows "
        "that messages move by more. They are drawn without an epsilon.",
        "RWADMM is a reconstruction from its description (taciturn_papers.methods.RWADMM), "
        "linearised, and not the program of its authors.",
        "At small budgets the step sizes shrink with the noise, so methods stay near 0, where they "
        "started: relative errors near 1 then mean that little was learned. Two classes of unequal "
        "size (ijcnn1) give such a model the share of the smaller class as test error.",
        "A vector is as long as the model. Test errors and objectives of relays are those of the "
        "token, of gossip those of the mean of the agents' models.",
        "Totals hold for noise that is secret. Here seeds are given.",
    )


def _of_scale(scale: Scale) -> tuple[str, ...]:
    if scale == FULL:
        return ()
    return (
        f"A quick run: {scale.records:,} records of {len(scale.sets)} data sets, {scale.hops} "
        "hops. Fewer records need more noise: errors are larger than in the full run.",
    )
