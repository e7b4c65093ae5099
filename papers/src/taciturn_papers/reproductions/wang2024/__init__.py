"""Wang et al. 2024, DP-RECAL, relays without a server: Tables I to V and Figures 2 to 9."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.datasets import load
from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import listed
from taciturn_papers.reproductions.gallery import gallery_html
from taciturn_papers.reproductions.portions import Arrays, Portion, Portions, Work, together
from taciturn_papers.reproductions.reproduction import Picture, Reproduction, run_named
from taciturn_papers.reproductions.wang2024.arms import two_classes
from taciturn_papers.reproductions.wang2024.as_printed import Leak, leaks
from taciturn_papers.reproductions.wang2024.costs import Scaling, scaling
from taciturn_papers.reproductions.wang2024.figures import figures, leak_figure, spending_svg
from taciturn_papers.reproductions.wang2024.orderings import of_leaks, of_scaling, orderings
from taciturn_papers.reproductions.wang2024.pictures import attacked, attacks_order, images
from taciturn_papers.reproductions.wang2024.runs import (
    Cell,
    Solved,
    Tasks,
    cells,
    exactly_solved,
    optima,
)
from taciturn_papers.reproductions.wang2024.settings import FULL, NAMES, QUICK, Scale
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
    leaked = _leaked(scale)
    return Reproduction(
        paper="wang2024",
        title=TITLE,
        run=_run(scale),
        problem=PROBLEM,
        settings=settings_of(scale),
        seeds=tuple(range(scale.repetitions)),
        figures=(*figures(found.cells, scale), *([leak_figure(leaked)] if leaked else [])),
        tables=(
            *fair_tables(found.cells, found.solved, scale),
            *(comparison_table(found.cells, loss, scale) for loss in scale.losses),
            optima_table(found.cells, scale),
            *scaling_tables(found.costs, scale),
        ),
        orderings=(
            *orderings(found.cells, scale),
            *(of_leaks(leaked) if leaked else ()),
            *attacks_order([one.errors for one in found.attacked]),
            *of_scaling(found.costs, scale),
        ),
        notes=notes(scale),
        pictures=(_spending(found.cells[0], scale), *(one.picture for one in found.attacked)),
    )


@dataclass(frozen=True, eq=False)
class _Attacked:
    """The pictures of one data set, and how far off the closed form is of each, by run."""

    picture: Picture
    errors: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Measured:
    """All that was run, before anything is drawn of it."""

    cells: list[Cell]
    solved: dict[str, Solved]
    costs: Scaling
    attacked: list[_Attacked]


def _measured(tasks: Tasks, scale: Scale) -> Work[_Measured]:
    every, solved = cells(tasks, scale), exactly_solved(tasks, scale)
    costs, attacked = scaling(scale), together([_attacked(name) for name in scale.images])
    return Work(
        (*every.portions, *solved.portions, *costs.portions, *attacked.portions),
        lambda found: _Measured(
            every.whole(found), solved.whole(found), costs.whole(found), attacked.whole(found)
        ),
    )


def _attacked(name: str) -> Work[_Attacked]:
    """Return the pictures of Figures 4, 7 and 8."""

    def compute() -> dict[str, HostArray]:
        data = load(name, interval="unit")
        made = images(data, seed=0, quick=True)
        texts = (made.id, made.title, made.question, gallery_html(made))
        errors = {"data": NAMES[name], **attacked(data, seed=0)}
        return {"texts": np.array([json.dumps([*texts, made.to_dict(), errors])])}

    def whole(found: Arrays) -> _Attacked:
        *picture, errors = json.loads(str(found["texts"][0]))
        return _Attacked(Picture(*picture), errors)

    return Work.of(Portion(f"Figures 4, 7 and 8: {name}", (name, "pictures"), compute), whole)


def _leaked(scale: Scale) -> tuple[Leak, ...]:
    """Return the attack on one record of each agent, a positive one first; none without ijcnn1."""
    if "ijcnn1" not in scale.sets:
        return ()
    data = two_classes("ijcnn1")
    chosen = np.flatnonzero(data.targets == 1)[: scale.agents]
    rows = data.features[chosen]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return leaks(unit, data.targets[chosen], scale)


def _spending(cell: Cell, scale: Scale) -> Picture:
    outcome = cell.outcomes["RECAL", scale.at_equal]
    counts = scale.walk_of(scale.hops, 0).counts
    return Picture(
        "Spending",
        "Who spends what on a walk",
        f"RECAL at total epsilon {scale.equal:g}: exact epsilon of each agent, and how often it "
        "was asked. The budget binds for the agent asked most; the others spend less. Counts are "
        "fixed by a public walk before a record is touched.",
        spending_svg(scale.graph, outcome.per_agent, counts.tolist()),
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
    decays, bounds = listed(scale.decays), ", ".join(scale.bounds)
    return (
        ("data", ", ".join(scale.sets) + f"; at most {scale.records:,} training records each"),
        ("sound rivals of RECAL", f"on {', '.join(scale.rival_sets)}"),
        ("features", "as published, each row clipped to norm 1; labels -1 and 1"),
        ("network", f"{scale.network} of {scale.agents} agents; Metropolis weights, or a "
         f"{scale.walk} walk"),
        ("weights of |x|_1 and |x|^2 / 2", f"{scale.l1:g} and {scale.l2:g}; the paper's: "
         f"{scale.paper_l1:g} and {scale.paper_l2:g}"),
        ("budgets", f"epsilon {listed(scale.budgets)} and {scale.equal:g} at delta "
         f"{scale.delta:g} (the paper's); {listed(scale.our_totals)} at delta "
         f"{scale.our_delta:g} (ours)"),
        ("neighbouring data sets", "one record of one agent is replaced by any other"),
        ("observer", "messages: every link is read"),
        ("bound on a record's coefficient", "linear 2, logistic 1: as large as a residual can be "
         "while predictions lie in [-1, 1], and the Lipschitz constant"),
        ("RECAL", f"{scale.hops:,} hops of 3 vectors; every other sound method without a "
         "trusted holder sends as many vectors, a published one two thirds of it"),
        ("step sizes", "sound: each method's own, from public facts; nothing was tuned"),
        ("published methods", f"reading {scale.variant} of Algorithm 1; alpha = {scale.alpha:g} / "
         f"(L + 1) ({scale.steps}), for gossip 1 / (L + 1), times {scale.gamma:g}^t; PLF of gossip "
         f"{scale.hops // scale.agents}; readings of c: {bounds}; of R: {decays}; the figures have "
         "the first ones"),
        ("repetitions", f"{scale.repetitions} walks and noises on one split; "
         f"{scale.published_repetitions} of published methods, whose runs of one repetition share "
         f"walk and noise; {scale.walks} walks in Tables I to III"),
    )  # fmt: skip


def notes(scale: Scale) -> tuple[str, ...]:
    """Return the sentences that a fair reader needs."""
    return (
        *_of_scale(scale),
        "Figures 4, 7 and 8 are pictures: in the default run, and by `taciturn attack mnist`; the "
        "orderings are about eight pictures of each set, read by the closed form. Figure 9 is "
        "answered by exact recovery instead of an attack by optimisation. At the paper's weights "
        "the links give at most a few per cent of the coordinates of gradients; that figure "
        "refutes nothing there, and Theorem 4 is refuted by the case without a regulariser.",
        "With the paper's weights 0 is the optimum (see the table of optima), and a prox that cuts "
        "to 0 whatever lies below its threshold returns it exactly under moderate noise. Relative "
        "errors near 1e-15 are that, and say nothing about accuracy: Tables IV and V come out "
        "where c is small enough, and are vacuous (`taciturn claims wang2024/tables4-5`).",
        "The paper names neither c nor R. c as large as a record allows is public; the largest "
        "gradient of an agent at a point, Assumption 3 as the data meet it, is not, and smaller.",
        "For DP-EXTRA and DP-NIDS the paper prints no sensitivity. Here their messages are charged "
        "for one step's change, by the rule of its Lemma 5; `taciturn claims wang2024/dp-nids` "
        "shows that messages move by more. They are drawn without an epsilon.",
        "RWADMM is a reconstruction from its description (taciturn_papers.methods.RWADMM), "
        "linearised, and not the program of its authors. DP-ADMM of [13] and DP-MRADMM are not "
        "run as published; gossip ADMM and R-ADMM are their sound relatives.",
        "Several tokens at once are not run: u is one sum of all duals, and two holders would add "
        "to two copies of it, of which neither is that sum; all agents at once is iteration (6), "
        "with n messages a step.",
        "At small budgets the step sizes shrink with the noise, so methods stay near 0, where they "
        "started: relative errors near 1 then mean that little was learned. Two classes of unequal "
        "size (ijcnn1) give such a model the share of the smaller class as test error.",
        "A vector is as long as the model. Test errors and objectives of relays are those of the "
        "token, of gossip those of the mean of the agents' models.",
        "Totals hold for noise that is secret. Here seeds are given.",
    )


def _of_scale(scale: Scale) -> tuple[str, ...]:
    if scale != QUICK:
        return (
            "The paper's scale: all records, 2,400 hops (PLF 300 by gossip). Its other PLFs, 500 "
            "and 2,000, are --set hops=4000 and --set hops=16000; decaying steps are --set "
            "gamma=0.999.",
        )
    return (
        f"A quick run: {scale.records:,} records of {len(scale.sets)} data sets, {scale.hops} "
        "hops. Fewer records need more noise: errors are larger than in the default run.",
    )
