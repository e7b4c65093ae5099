"""Figures 4, 7 and 8: pictures recovered from what travels on the links."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import RECAL
from taciturn.datasets import CAT, DOG, Dataset
from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, Point
from taciturn.kernel.records import Shards, pack
from taciturn.network import Walk, cyclic_walk, ring
from taciturn.problems import (
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    WholeSpace,
    public_facts,
)
from taciturn.typing import Array, HostArray, Key
from taciturn_papers.as_published import NoisedStep
from taciturn_papers.as_published.dp_recal import Links, coupling, dp_recal
from taciturn_papers.attacks.closed_form import class_sums, rank_one
from taciturn_papers.attacks.closeness import Closeness, closeness, nearest
from taciturn_papers.attacks.dlg import dlg
from taciturn_papers.attacks.gradinversion import gradinversion
from taciturn_papers.attacks.inverting_gradients import inverting_gradients
from taciturn_papers.attacks.seen import Seen, seen_on_links
from taciturn_papers.reproductions.figure import Budget, Measured
from taciturn_papers.reproductions.gallery import Block, Gallery, Tile
from taciturn_papers.reproductions.ordering import Ordering, Pair, rising

AGENTS, VISITS, ALPHA, DELTA = 8, 3, 0.9, 1e-5


@dataclass(frozen=True, eq=False)
class Scene:
    """Agents on a ring with equally many pictures each, and one multinomial model."""

    problem: Problem
    shards: Shards
    walk: Walk

    @property
    def records(self) -> int:
        """Pictures of each agent."""
        return self.shards.counts[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the model: features and classes."""
        loss = self.problem.loss
        return self.shards.dimension, loss.outputs or 1

    def pictures(self, agent: int) -> HostArray:
        """Return an agent's records, which only the comparison at the end may see."""
        return np.asarray(self.shards.shard(agent).features)

    def seen(self, links: Links, agent: int) -> Seen:
        """Return what links say of one agent."""
        return seen_on_links(
            links, self.walk, ALPHA, agent, classes=self.shape[1], records=self.records,
            record_norm=self.shards.record_norm,
        )  # fmt: skip


def scene(data: Dataset, *, records: int, seed: int) -> Scene:
    """Return a scene with pictures drawn from the training part of a data set."""
    rows = np.random.default_rng(seed).permutation(data.train_rows)[: AGENTS * records]
    shards = pack(
        data.features, data.targets, np.split(rows, AGENTS), record_norm=data.record_norm,
        precision="float64",
    )  # fmt: skip
    problem = Problem(MultinomialLogistic(data.classes or 2), NoRegulariser(), WholeSpace())
    return Scene(problem, shards, cyclic_walk(ring(AGENTS), AGENTS * VISITS))


def as_published(subject: Scene, *, epsilon: float, seed: int) -> Links:
    """Return the links of DP-RECAL as printed, for that claimed epsilon; infinite: RECAL."""
    oracle = Gradient(subject.problem.loss, math.inf)
    shape, count = subject.shape, jnp.asarray(float(subject.records))

    @jax.jit
    def exact(agent: Array, point: Array) -> Array:
        shard = jax.tree.map(lambda leaf: leaf[agent], subject.shards.stacked)
        return oracle.exact(shard, count, Point(point))

    def gradient(agent: int, point: HostArray) -> HostArray:
        return np.asarray(exact(jnp.asarray(agent), jnp.asarray(point.reshape(shape)))).ravel()

    bound = oracle.coefficient_bound * subject.shards.record_norm
    setting = NoisedStep(ALPHA, first_scale(epsilon, bound), decay=1.0)
    size = shape[0] * shape[1]
    return dp_recal(gradient, lambda v: v, subject.walk, size, setting, variant="A", seed=seed)


def first_scale(epsilon: float, bound: float) -> float:
    """Return the constant noise scale at which Theorem 4 claims that epsilon.

    epsilon = rho + 2 sqrt(rho ln(1/delta)) gives sqrt(rho) = sqrt(ln(1/delta) + epsilon)
    - sqrt(ln(1/delta)), and rho = PLF 8 (alpha beta c / sigma)^2 gives sigma.
    """
    if math.isinf(epsilon):
        return 0.0
    log = math.log(1 / DELTA)
    root = math.sqrt(log + epsilon) - math.sqrt(log)
    return math.sqrt(8 * VISITS) * ALPHA * coupling(AGENTS) * bound / root


def sound(subject: Scene, *, epsilon: float, seed: int) -> tuple[Links, float]:
    """Return the links of RECAL on noised gradients under a total epsilon, and its certified mu."""
    terms = Budget(epsilon, DELTA).terms
    made = plan(
        public_facts(subject.problem, subject.shards, clip=math.inf),
        RECAL(subject.problem, step=ALPHA, objective_scale=1.0),
        (Gradient(subject.problem.loss, math.inf),),
        terms,
        rounds=len(subject.walk.holders),
        precision="float64",
        network=subject.walk,
    )
    done = run(made, subject.shards, runtime="simulate", seed=seed, keep=frozenset({"messages"}))
    token = done.trace.messages
    model, duals = (_from_zero(sent) for sent in (token.model, token.duals))
    return Links(model, duals, np.full_like(model[1:], np.nan)), made.certificate.mu or math.inf


def _from_zero(sent: Array) -> HostArray:
    """Return what is sent, `(T + 1, D K)`, from the first token on, which is 0."""
    flat = np.asarray(sent).reshape(len(sent), -1)
    return np.concatenate([np.zeros_like(flat[:1]), flat])


CLAIMED = 1.0
TOTALS = (10_000.0, 8.0, 1.0)

Attack = Callable[[Seen, Key], HostArray]


class Effort(NamedTuple):
    """How many pictures are shown, and how long the searches may take."""

    pictures: int
    counts: tuple[int, ...]
    steps: int
    newton_steps: int
    restarts: int


FULL = Effort(pictures=4, counts=(1, 4, 16), steps=4000, newton_steps=300, restarts=2)
QUICK = Effort(pictures=2, counts=(1, 4), steps=1000, newton_steps=150, restarts=1)


def images(data: Dataset, *, seed: int, quick: bool) -> Gallery:
    """Return original and recovered pictures of three kinds of run, with a number beside each.

    Every attack is given the links alone. An agent holds one picture; the last grid lets that
    number grow.

    Parameters
    ----------
    data
        Square pictures with classes, grey or in three colours: MNIST, Fashion-MNIST or CIFAR-10,
        whose cats and dogs are two of its ten classes here.
    seed
        Of the pictures drawn, the noise and the searches' starts.
    quick
        Fewer pictures and shorter searches.

    Raises
    ------
    InputError
        If the records are not square pictures with more than two classes.
    """
    data = _of_ten(data) if data.name == "cifar10" else data
    side, _ = _layout(data.features.shape[1])
    if not side or data.task != "multiclass":
        raise InputError(
            f"{data.name} does not hold square pictures of several classes; take mnist, "
            "fashion_mnist or cifar10"
        )
    effort = QUICK if quick else FULL
    attacks = _attacks(effort, (side, side))
    subject = scene(data, records=1, seed=seed)
    runs = _runs(subject, seed)
    grids = [_grid(subject, runs, name, attacks[name], effort.pictures) for name in attacks]
    return Gallery(
        id="Figures 4, 7, 8",
        title=f"Pictures read off the links: {data.title}",
        question=(
            "What does an eavesdropper on all links make of an agent that holds a single picture? "
            "Below every picture: its relative error after the best scaling (0 is exact, 1 no "
            "better than nothing) and its peak signal-to-noise ratio. A uniform grey has an error "
            f"of {_grey(subject, effort.pictures):.2g}. Delta is {DELTA:g}."
        ),
        paper_shows=(
            "Without privacy the pictures are recovered; from DP-RECAL all three attacks get noise."
        ),
        blocks=(*grids, _by_count(data, attacks, effort, seed)),
        notes=_NOTES,
    )


_NOTES = (
    "DP-RECAL as published, here without a regulariser, sends what determines the exact gradient, "
    "whatever its noise, so its pictures come back as if there were none: its true epsilon is "
    "infinite. The paper does not say how its eavesdropper deduced gradients; this one solves the "
    "equations of the links.",
    "The sound form asks for noised gradients; the same eavesdropper gets the noised answers. Its "
    "totals are exact. Noise that stops these attacks is far from a guarantee: a failed attack "
    "shows that this attack failed, which is why the column of epsilon 10,000 is here.",
    "Nobody inverts a mean over a thousand pictures. An agent with few is another matter: if it "
    "lacks a class, a gradient at 0 gives a picture alone in its class exactly, and of pictures "
    "that share a class their sum. The last grid shows what comes closest to the "
    "first picture, and the mean error over all of the agent's pictures.",
    "Closed form: one singular value decomposition for one picture, class sums for several. The "
    "searches: DLG (Zhu et al. 2019), Inverting Gradients (Geiping et al. 2020) and GradInversion "
    "(Yin et al. 2021) without its terms for batch normalisation and groups, which have no meaning "
    "for a linear model. Weights of total variation 1e-4 and of size 1e-6; none was tuned.",
)


def _attacks(effort: Effort, shape: tuple[int, int]) -> Mapping[str, Attack]:
    return {
        "closed form": _closed_form,
        "DLG": lambda seen, key: (
            dlg(seen, key, restarts=effort.restarts, steps=effort.newton_steps).records
        ),
        "Inverting Gradients": lambda seen, key: (
            inverting_gradients(seen, key, shape=shape, variation=1e-4, steps=effort.steps).records
        ),
        "GradInversion": lambda seen, key: (
            gradinversion(
                seen, key, shape=shape, variation=1e-4, ridge=1e-6, steps=effort.steps
            ).records
        ),
    }


def _closed_form(seen: Seen, key: Key) -> HostArray:
    del key  # nothing is drawn
    if seen.records == 1:
        return rank_one(seen).record[None]
    return class_sums(seen)


def _runs(subject: Scene, seed: int) -> dict[str, Links]:
    """Return what is on the links of every run, by a name that says its budget."""
    runs = {
        "no privacy": as_published(subject, epsilon=math.inf, seed=seed),
        f"as published, claimed epsilon {CLAIMED:g}, true infinite": as_published(
            subject, epsilon=CLAIMED, seed=seed
        ),
    }
    for total in TOTALS:
        links, mu = sound(subject, epsilon=total, seed=seed)
        runs[f"sound, total epsilon {total:,.0f}, mu {mu:.3g}"] = links
    return runs


def _grid(
    subject: Scene, runs: dict[str, Links], name: str, attack: Attack, pictures: int
) -> Block:
    rows = []
    for agent in range(pictures):
        found = [
            _closest(subject, agent, attack(subject.seen(links, agent), jax.random.key(agent)))[0]
            for links in runs.values()
        ]
        shown = tuple(Tile(_square(one.record), one.error, one.psnr) for one in found)
        rows.append((f"agent {agent + 1}", (_original(subject, agent), *shown)))
    return Block(f"{name}: one picture an agent", ("original", *runs), tuple(rows))


LADDER = (1e6, 1e5, 1e4, 1e3, 8.0)  # totals at which the closed form is compared
_PUBLISHED = "as published"


def attacked(data: Dataset, *, seed: int) -> dict[str, list[float]]:
    """Return the relative errors of the closed form on every agent's picture, by run."""
    subject = scene(_of_ten(data) if data.name == "cifar10" else data, records=1, seed=seed)
    runs = {_PUBLISHED: as_published(subject, epsilon=CLAIMED, seed=seed)}
    runs |= {f"{total:g}": sound(subject, epsilon=total, seed=seed)[0] for total in LADDER}
    return {
        name: [
            _closest(subject, agent, rank_one(subject.seen(links, agent)).record[None])[0].error
            for agent in range(AGENTS)
        ]
        for name, links in runs.items()
    }


def attacks_order(found: Sequence[Mapping[str, Any]]) -> list[Ordering]:
    """Return the orderings of Figures 4, 7 and 8, from `attacked` and the names of data sets."""
    if not found:
        return []
    tenth = ("0.1", Measured.computed(0.1))
    kept = tuple(
        Pair(one["data"], tenth, (_PUBLISHED, Measured.of(one[_PUBLISHED]))) for one in found
    )
    totals = [f"{total:g}" for total in LADDER]
    grows = tuple(
        pair
        for one in found
        for pair in rising(
            one["data"], totals, [Measured.of(one[name]) for name in totals], measure="error"
        )
    )
    part = "Figures 4, 7, 8"
    return [
        Ordering(part, "DP-RECAL keeps the attacker from the pictures: error above 0.1", kept),
        Ordering(
            part,
            "sound RECAL: the smaller the budget, the larger the error",
            grows,
            "ours",
        ),
    ]


def _by_count(data: Dataset, attacks: Mapping[str, Attack], effort: Effort, seed: int) -> Block:
    """Return how the attacks fare on DP-RECAL as published as an agent's pictures get more."""
    subjects = [scene(data, records=count, seed=seed) for count in effort.counts]
    seen = [one.seen(as_published(one, epsilon=CLAIMED, seed=seed), 0) for one in subjects]
    rows = []
    for name, attack in attacks.items():
        row = []
        for subject, known in zip(subjects, seen, strict=True):
            found = _closest(subject, 0, attack(known, jax.random.key(seed)))
            mean = float(np.mean([one.error for one in found]))
            row.append(Tile(_square(found[0].record), mean))
        rows.append((name, (_original(subjects[0], 0), *row)))
    columns = tuple(f"{count} an agent" if count > 1 else "1 picture" for count in effort.counts)
    return Block(
        f"More pictures an agent: DP-RECAL as published, {VISITS - 1} gradients from the links",
        ("original", *columns), tuple(rows),
    )  # fmt: skip


def _closest(subject: Scene, agent: int, found: HostArray) -> tuple[Closeness, ...]:
    return nearest(found, subject.pictures(agent))


def _original(subject: Scene, agent: int) -> Tile:
    return Tile(_square(subject.pictures(agent)[0]))


def _of_ten(data: Dataset) -> Dataset:
    """Return the cats and dogs of CIFAR-10 under their own labels, for a model of ten classes."""
    labels = np.where(data.targets < 0, CAT, DOG)
    return dataclasses.replace(data, task="multiclass", classes=10, targets=labels)


def _grey(subject: Scene, pictures: int) -> float:
    """Return the mean error of a uniform picture, against which others can be read."""
    truths = [subject.pictures(agent)[0] for agent in range(pictures)]
    return float(np.mean([closeness(np.ones_like(truth), truth).error for truth in truths]))


def _layout(size: int) -> tuple[int, int]:
    """Return side and colours of a square picture of so many values; side 0 if it is none."""
    for colours in (1, 3):
        side = math.isqrt(size // colours)
        if colours * side**2 == size:
            return side, colours
    return 0, 0


def _square(record: HostArray) -> HostArray:
    """Return a record, stored colour by colour, as pixels `(H, W)` or `(H, W, 3)`."""
    side, colours = _layout(record.size)
    return np.moveaxis(record.reshape(colours, side, side), 0, -1).squeeze()
