"""Figures 4, 7 and 8 of Wang et al. 2024: pictures recovered from what travels on the links."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from tacit.datasets import CAT, DOG, Dataset
from tacit.errors import InputError
from tacit.typing import HostArray, Key
from tacit_papers.as_published import Links
from tacit_papers.attacks import (
    Closeness,
    Seen,
    class_sums,
    closeness,
    dlg,
    gradinversion,
    inverting_gradients,
    nearest,
    rank_one,
)
from tacit_papers.reproductions.gallery import Block, Gallery, Tile
from tacit_papers.reproductions.wang2024.overheard import (
    DELTA,
    VISITS,
    Scene,
    as_published,
    scene,
    sound,
)

CLAIMED = 1.0
TOTALS = (10_000.0, 8.0, 1.0)

Method = Callable[[Seen, Key], HostArray]


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
    methods = _methods(effort, (side, side))
    subject = scene(data, records=1, seed=seed)
    runs = _runs(subject, seed)
    grids = [_grid(subject, runs, name, methods[name], effort.pictures) for name in methods]
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
        blocks=(*grids, _by_count(data, methods, effort, seed)),
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


def _methods(effort: Effort, shape: tuple[int, int]) -> Mapping[str, Method]:
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
    subject: Scene, runs: dict[str, Links], name: str, method: Method, pictures: int
) -> Block:
    rows = []
    for agent in range(pictures):
        found = [
            _closest(subject, agent, method(subject.seen(links, agent), jax.random.key(agent)))[0]
            for links in runs.values()
        ]
        shown = tuple(Tile(_square(one.record), one.error, one.psnr) for one in found)
        rows.append((f"agent {agent + 1}", (_original(subject, agent), *shown)))
    return Block(f"{name}: one picture an agent", ("original", *runs), tuple(rows))


def _by_count(data: Dataset, methods: Mapping[str, Method], effort: Effort, seed: int) -> Block:
    """Return how the attacks fare on DP-RECAL as published as an agent's pictures get more."""
    subjects = [scene(data, records=count, seed=seed) for count in effort.counts]
    seen = [one.seen(as_published(one, epsilon=CLAIMED, seed=seed), 0) for one in subjects]
    rows = []
    for name, method in methods.items():
        row = []
        for subject, known in zip(subjects, seen, strict=True):
            found = _closest(subject, 0, method(known, jax.random.key(seed)))
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
