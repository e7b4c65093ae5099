"""General-form consensus: agents of different dimensions that share some coordinates.

Agent a holds n_a variables, each of them one of the G coordinates of a global vector. A coordinate
may be held by one agent, by some or by all ("consensus on everything"). Vectors of agents are
padded at the end to a common length D.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tacit.errors import InputError
from tacit.typing import Array, HostArray


class SharedCoordinates(eqx.Module):
    """Which agent holds which coordinates.

    Attributes
    ----------
    place
        `(A, D)`: the global coordinate of every local one; G in the padding.
    holders
        `(G,)`: how many agents hold each coordinate, at least 1.
    """

    place: Int[Array, "A D"]
    holders: Float[Array, " G"]

    def local(self, agent: int | Int[Array, ""], whole: Float[Array, " G"]) -> Float[Array, " D"]:
        """Return an agent's part of a global vector, 0 in the padding."""
        return jnp.append(whole, 0)[self.place[agent]]

    def scattered(
        self, agent: int | Int[Array, ""], part: Float[Array, " D"]
    ) -> Float[Array, " G"]:
        """Return the global vector that holds an agent's part, 0 where the agent holds nothing."""
        size = self.holders.shape[0]
        return jnp.zeros(size + 1, part.dtype).at[self.place[agent]].set(part)[:size]

    def shared(self, agent: int | Int[Array, ""]) -> Bool[Array, " D"]:
        """Return which of an agent's coordinates others hold too."""
        return self.local(agent, self.holders) > 1

    def average(self, mean: Float[Array, " G"]) -> Float[Array, " G"]:
        """Return the average over holders, from the mean over all agents of scattered parts.

        The mean over agents divides a sum of `holders` terms by A, so mean A / holders.
        """
        return mean * self.place.shape[0] / self.holders


def shared_coordinates(held: list[Int[HostArray, " _n"]], size: int) -> SharedCoordinates:
    """Return the sharing of `size` global coordinates when agent a holds those of `held[a]`.

    Raises
    ------
    InputError
        If a coordinate is out of range, held twice by one agent, or held by none.

    Examples
    --------
    >>> sharing = shared_coordinates([np.array([0, 1]), np.array([1, 2, 3])], 4)
    >>> sharing.holders.tolist(), sharing.local(0, jnp.arange(4.0)).tolist()
    ([1.0, 2.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    """
    if not held or any(len(np.unique(part)) != len(part) for part in held):
        raise InputError("an agent holds a coordinate twice, or there is no agent; correct it")
    every = np.concatenate(held)
    if every.size == 0 or every.min() < 0 or every.max() >= size:
        raise InputError(f"a coordinate is not in 0..{size - 1}; correct it or raise the size")
    holders = np.bincount(every, minlength=size)
    if np.any(holders == 0):
        raise InputError(f"no agent holds coordinate {int(holders.argmin())}; give it to one")
    place = np.full((len(held), max(map(len, held))), size, np.int32)
    for agent, part in enumerate(held):
        place[agent, : len(part)] = part
    return SharedCoordinates(jnp.asarray(place), jnp.asarray(holders, jnp.float64))
