"""DP-VRADMM and DP-SADMM as Liu et al. 2022 print them: Algorithms 1 and 2, with one noise (6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from taciturn.kernel.records import Shard
from taciturn.problems import Structured
from taciturn.typing import Array, HostArray, Vector

TreeT = TypeVar("TreeT")
Method = Literal["vradmm", "sadmm", "renyi"]


class Iterate(NamedTuple):
    """x, y and the scaled dual."""

    x: Vector
    y: Float[Array, "k"]
    dual: Float[Array, "m"]


class Constants(NamedTuple):
    """What K runs differ in; each `(K,)`, in one run `()`.

    Attributes
    ----------
    noise
        sigma, the standard deviation of u_t.
    rho
        The penalty, beta in the paper.
    norm
        |A'A| for gamma = 1 + eta rho |A'A| (Property 2), 0 for gamma = 1 (Section V-B).
    step
        eta of DP-VRADMM; a factor of the published steps of DP-SADMM.
    """

    noise: Float[Array, "*K"]
    rho: Float[Array, "*K"]
    norm: Float[Array, "*K"]
    step: Float[Array, "*K"]


class Batches(NamedTuple):
    """The Poisson batches of T steps for S seeds: places of records, and how many are used."""

    places: Int[HostArray, "S T K"]
    taken: Bool[HostArray, "S T K"]


class PublishedADMM(eqx.Module):
    """Algorithm 1 or 2 on the records of one holder, as printed.

    With u of variance sigma^2 and f including the ridge, a step is

        y    <- prox_{r / rho}(A x + dual)
        x    <- x - (eta / gamma) Q^-1 (G + rho A'(A x - y + dual))
        dual <- dual + A x - y,

    where G is the mean gradient of a batch plus u (DP-SADMM), or (6), the batch's mean change from
    the anchor plus the full gradient there plus u (DP-VRADMM: one noise for all three terms).

    Without a ridge (GC) DP-VRADMM has a constant eta, DP-SADMM eta_t = 1/sqrt(t + 1), and the mean
    over all steps is returned. With a ridge mu (SC) DP-VRADMM sets in each epoch x to the anchor,
    dual to -(1/rho) (A')^+ grad f(anchor), and returns the last anchor; DP-SADMM takes eta_t = 2
    gamma |Q| / (mu (t + 1)) and returns the mean weighted by t. With gamma = 1 + eta rho |A'A| that
    rule has no positive solution at first (the claim liu2022/sc-step); eta is then taken without
    the factor gamma. "renyi" is the exact x-step of `taciturn.algorithms.RenyiADMM`.

    **Guarantee.** None: the restart shows a gradient without noise, the noise may be any, and the
    seeds are given.

    Attributes
    ----------
    batch, inner, epochs
        b on average; m; S (DP-SADMM takes S m steps).
    smoother
        Q^-1, `(D, D)`; None for I.
    largest
        |Q|, 1 + 4 v for smoothing of strength v.
    inverse
        (A')^+, which `run` computes for the restarts.
    """

    problem: Structured
    method: Method = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    inner: int = eqx.field(static=True)
    epochs: int = eqx.field(static=True)
    smoother: Float[Array, "D D"] | None = None
    largest: float = 1.0
    inverse: Float[Array, "m D"] | None = None

    def run(
        self, records: Shard, constants: Constants, seeds: Sequence[int]
    ) -> Float[HostArray, "K S D"]:
        """Return the models of K settings for S seeds; settings of a seed share its draws."""
        count = int(np.sum(np.asarray(records.mask)))
        drawn = poisson(count, self.batch, self.epochs * self.inner, seeds)
        keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        method, rows = self, _single(records)
        if self.method == "vradmm" and self.problem.ridge:
            inverse = np.linalg.pinv(self.problem.forward.sparse().toarray().T)
            method = dataclasses.replace(self, inverse=jnp.asarray(inverse))
        given = Constants(*(jnp.asarray(part, rows.features.dtype) for part in constants))
        return np.asarray(_runs(_single(method), rows, given, drawn, keys), np.float64)

    def one(self, records: Shard, at: Constants, drawn: Batches, key: Array) -> Float[Array, "D"]:
        """Return the model of one run."""
        dtype, columns = records.features.dtype, records.features.shape[-1]
        zero = jnp.zeros(columns, dtype)
        dual = jnp.zeros(self.problem.forward.rows, dtype)
        start = Iterate(zero, dual, dual)
        run = self._reduced if self.method == "vradmm" else self._plain
        return run(records, at, drawn, key, start)

    def _plain(
        self, records: Shard, at: Constants, drawn: Batches, key: Array, start: Iterate
    ) -> Vector:
        """Return the mean of the iterates of Algorithm 2."""

        def step(state: tuple[Iterate, Vector], t: Array) -> tuple[tuple[Iterate, Vector], None]:
            here, mean = state
            batch = _batch(records, drawn, t)
            noise = at.noise * jax.random.normal(jax.random.fold_in(key, t), mean.shape, mean.dtype)
            new = self.step(here, self._slope(batch, here.x, self.batch) + noise, at, t)
            weight = 2 / (t + 2) if self.problem.ridge else 1 / (t + 1)
            return (new, mean + weight.astype(mean.dtype) * (new.x - mean)), None

        steps = jnp.arange(self.epochs * self.inner)
        return jax.lax.scan(step, (start, start.x), steps)[0][1]

    def _reduced(
        self, records: Shard, at: Constants, drawn: Batches, key: Array, start: Iterate
    ) -> Vector:
        """Return the output of Algorithm 1."""
        ridge = self.problem.ridge
        count = jnp.sum(records.mask)

        def epoch(state: tuple[Iterate, Vector], s: Array) -> tuple[tuple[Iterate, Vector], Vector]:
            here, anchor = state
            full = self._slope(records, anchor, count) - ridge * anchor
            if self.inverse is not None:
                dual = -(self.inverse @ (full + ridge * anchor)) / at.rho
                here = Iterate(anchor, here.y, dual)

            def step(inner: tuple[Iterate, Vector], k: Array) -> tuple[Any, None]:
                now, total = inner
                t = s * self.inner + k
                batch = _batch(records, drawn, t)
                change = self._slope(batch, now.x, self.batch, anchor)
                noise = jax.random.normal(jax.random.fold_in(key, t), total.shape, total.dtype)
                new = self.step(now, change + full + at.noise * noise, at, t)
                return (new, total + new.x), None

            first = (here, jnp.zeros_like(anchor))
            (last, total), _ = jax.lax.scan(step, first, jnp.arange(self.inner))
            mean = total / self.inner
            return (last, mean), mean

        (_, last), means = jax.lax.scan(epoch, (start, start.x), jnp.arange(self.epochs))
        return last if ridge else jnp.mean(means, axis=0)

    def step(self, here: Iterate, gradient: Vector, at: Constants, t: Array) -> Iterate:
        """Return the iterate after step t (from 0) on a noised gradient G."""
        problem, rho = self.problem, at.rho
        eta = self._eta(at, t).astype(here.x.dtype)
        image = problem.forward.apply(here.x)
        if self.method == "renyi":  # y is updated after x
            x = (here.x / eta + rho * (here.y - here.dual) - gradient) / (1 / eta + rho)
            y = problem.regulariser.prox(x + here.dual, 1 / rho)
            return Iterate(x, y, here.dual + x - y)
        y = problem.regulariser.prox(image + here.dual, 1 / rho)
        direction = gradient + rho * problem.forward.adjoint(image - y + here.dual)
        if self.smoother is not None:
            direction = self.smoother @ direction
        x = here.x - eta / (1 + at.norm * eta * rho) * direction
        return Iterate(x, y, here.dual + problem.forward.apply(x) - y)

    def _eta(self, at: Constants, t: Array) -> Array:
        """Return eta of step t, without the factor gamma in the strongly convex rule."""
        if self.method == "vradmm":
            return at.step
        if self.problem.ridge:
            return at.step * 2 * self.largest / (self.problem.ridge * (t + 1))
        return at.step / jnp.sqrt(t + 1.0)

    def _slope(
        self, rows: Shard, x: Vector, count: Array | int, anchor: Vector | None = None
    ) -> Vector:
        """Return the sum of the records' gradients over `count`, or of their changes; and ridge."""
        loss = self.problem.loss
        coefficient = loss.coefficient(rows.features @ x, rows.targets)
        if anchor is not None:
            coefficient -= loss.coefficient(rows.features @ anchor, rows.targets)
        return (coefficient * rows.mask) @ rows.features / count + self.problem.ridge * x


@eqx.filter_jit
def _runs(
    method: PublishedADMM, records: Shard, constants: Constants, drawn: Batches, keys: Array
) -> Float[Array, "K S D"]:
    of_seed = jax.vmap(partial(method.one, records), in_axes=(None, 0, 0))
    found: Array = jax.vmap(of_seed, in_axes=(0, None, None))(constants, drawn, keys)
    return found


def _single(tree: TreeT) -> TreeT:
    """Return the same in single precision."""

    def narrowed(leaf: Any) -> Any:
        real = eqx.is_inexact_array_like(leaf) and hasattr(leaf, "dtype")
        return jnp.asarray(leaf, jnp.float32) if real else leaf

    found: TreeT = jax.tree.map(narrowed, tree)
    return found


def _batch(records: Shard, drawn: Batches, t: Array) -> Shard:
    places, taken = drawn.places[t], drawn.taken[t]
    return Shard(
        records.features[places], records.targets[places], taken.astype(records.features.dtype)
    )


def poisson(count: int, batch: int, steps: int, seeds: Sequence[int]) -> Batches:
    """Return for every seed and step the records that each take part with probability b / n."""
    drawn = [np.random.default_rng((seed, 1)) for seed in seeds]
    sizes = [draw.binomial(count, min(1.0, batch / count), steps) for draw in drawn]
    most = max(int(size.max()) for size in sizes)
    places = np.stack([_distinct(draw, count, (steps, most)) for draw in drawn])
    return Batches(places, np.arange(most) < np.array(sizes)[..., None])


def _distinct(
    draw: np.random.Generator, count: int, shape: tuple[int, int]
) -> Int[HostArray, "T K"]:
    """Return rows of distinct numbers below `count`, each row drawn again until it has none twice.

    Where that would take long, the first of a permutation.
    """
    if shape[1] ** 2 > count:
        return np.array([draw.permutation(count)[: shape[1]] for _ in range(shape[0])], np.int32)
    found = draw.integers(count, size=shape, dtype=np.int32)
    again = np.arange(shape[0])
    while again.size:
        ordered = np.sort(found[again], axis=1)
        again = again[np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)]
        found[again] = draw.integers(count, size=(again.size, shape[1]), dtype=np.int32)
    return found


def smoother(size: int, strength: float) -> Float[HostArray, "D D"]:
    """Return Q_v^-1 of the periodic chain of all columns as a matrix."""
    ring = np.stack([np.arange(size), (np.arange(size) + 1) % size], axis=1)
    return graph_smoother(ring, size, strength)


def graph_smoother(
    edges: Int[HostArray, "e 2"], size: int, strength: float
) -> Float[HostArray, "D D"]:
    """Return (I + v L)^-1, L the Laplacian of a graph of the columns; Q_v^-1 for the ring."""
    laplacian = np.zeros((size, size))
    for i, j in edges:
        laplacian[i, i] += 1
        laplacian[j, j] += 1
        laplacian[i, j] -= 1
        laplacian[j, i] -= 1
    found: HostArray = np.linalg.inv(np.eye(size) + strength * laplacian)
    return found
