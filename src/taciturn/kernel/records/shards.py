"""Private records: the rows of each agent, packed in blocks of a common length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Shaped

from taciturn import checks
from taciturn.errors import InputError, PrivacyError, reraise_clean
from taciturn.kernel.records.division import EMPTY, Origin, Persons, origin_of
from taciturn.kernel.records.grid import Grid, on_grid, row_digits
from taciturn.kernel.records.memory import (
    aligned_zeros,
    device_array,
    jax_array,
    on_host,
    row_blocks,
    some_of,
)
from taciturn.typing import Array, HostArray, Precision, Rows

# above this sum of squares, entries whose squares underflow (1e-154) do not matter
_LEAST_SQUARE = 1e-200


class Shard(eqx.Module):
    """The records of one agent, or of A agents when every leaf has a leading axis A.

    Padded rows, features and targets, are 0.
    """

    features: Float[Array, "*A M D"]
    targets: Shaped[Array, "*A M"]  # floating or int32
    mask: Float[Array, "*A M"]  # 1 for a record, 0 for padding, in the type of sums over records
    # the grid on which sums over records are exact; None for sums in working precision
    grid: Grid | None = eqx.field(static=True, default=None)

    @property
    def narrow(self) -> bool:
        """Whether rows on a grid are stored in single precision, and must be widened for sums."""
        return self.grid is not None and self.features.dtype == np.float32

    def widened(self) -> Shard:
        """Return the same records with rows in double precision."""
        wide = self.features.astype(np.float64) if self.narrow else self.features
        return dataclasses.replace(self, features=wide)


class Shards(eqx.Module):
    """The records of all agents. `jax.vmap` over `stacked` maps over each agent's `Shard`."""

    stacked: Shard  # whose leaves have a leading agent axis
    counts: tuple[int, ...] = eqx.field(static=True)  # m_i, public; a zeroed record still counts
    record_norm: float = eqx.field(static=True)  # R: every row satisfies |x|_2 <= R
    # None for shards that `pack` did not make, which no run accepts
    origin: Origin | None = eqx.field(static=True, default=None)

    @property
    def agents(self) -> int:
        """Number of agents, A."""
        return len(self.counts)

    @property
    def dimension(self) -> int:
        """Number of features, D."""
        return self.stacked.features.shape[-1]

    def shard(self, agent: int) -> Shard:
        """Return the records of one agent, padding included."""
        one: Shard = jax.tree.map(lambda leaf: jax_array(np.asarray(leaf)[agent]), self.stacked)
        return one


def for_exact_sums(shards: Shards, *, slots: int = 0, narrow: bool = False) -> Shard:
    """Return all agents' records on the grid of exact sums, for batches of at most `slots`.

    With `narrow`, rows on one device are stored in single precision if that holds all digits.

    **Guarantee.** Every row is truncated separately and towards zero, so its norm does not grow.
    """
    stacked = shards.stacked
    rows = stacked.mask.shape[-1]
    grid = Grid(shards.record_norm, row_digits(rows, slots), rows)
    narrow = narrow and grid.narrow and len(stacked.features.sharding.device_set) == 1
    kind = np.float32 if narrow else np.float64
    features = device_array(on_grid(on_host(stacked.features), grid, kind), stacked.features)
    mask = device_array(on_host(stacked.mask).astype(np.float64), stacked.mask)
    return Shard(features, stacked.targets, mask, grid)


def pack(  # noqa: PLR0913 - rows, whose they are, and what is enforced
    features: Rows,
    targets: Shaped[np.ndarray, "N"],
    parts: Sequence[Shaped[np.ndarray, "_m"]],
    *,
    record_norm: float,
    precision: Precision,
    persons: Persons | None = None,
    absent: Bool[np.ndarray, "N"] | None = None,
    longest: int = 0,
) -> Shards:
    """Return the rows of every part as one agent's records, each multiplied by min(1, R / |x|_2).

    - `features`, `targets`: All rows, `(N, D)` and `(N,)`. Features are read some rows at a time; a
      row may be computed then, from one record alone. Integer targets become int32, others take
      the precision.
    - `parts`: Row indices of each agent. Rows in no part are left out.
    - `persons`: The persons of the rows, where persons are protected: an agent has K places for
      each of its persons, empty ones masked, and rows beyond K are left out.
    - `absent`: The rows whose places are masked: they are counted, but enter no sum.
    - `longest`: The least length of a block, if agents of other processes have more records.

    **Guarantee.** Clipping acts on each row alone, so that data sets that differ in one record
    still do after packing; the norm of a stored row, after rounding to `precision`, is at most R
    (`clip_rows`); and parts are disjoint, as parallel composition of the agents requires. With
    persons, m_i is K times a number of persons (`Persons`). An absent row is stored like padding,
    zeros under a mask; m_i counts it, so that no count depends on a cell.

    Examples
    --------
    >>> parts = [np.array([0, 1]), np.array([2])]
    >>> shards = pack(
    ...     np.array([[3.0], [0.5], [-4.0]]), np.array([1, -1, 1]), parts,
    ...     record_norm=1.0, precision="float32",
    ... )
    >>> shards.counts, shards.stacked.features[..., 0].tolist()
    ((2, 1), [[1.0, 0.5], [-1.0, 0.0]])
    """
    targets, columns = _storable(np.asarray(targets), precision), features.shape[-1]
    checks.positive("record_norm", record_norm)
    _check_parts(features, targets, parts)
    if persons is not None and persons.numbers.shape != targets.shape:
        raise InputError(
            f"there are persons of {persons.numbers.size} rows and {len(targets)} rows; give one "
            "for each"
        )
    origin = origin_at(parts, persons)
    indices = origin.rows
    longest = max(longest, *(part.size for part in indices))
    rows = aligned_zeros((len(indices), longest, columns), precision)
    answers = np.zeros((len(indices), longest), targets.dtype)
    mask = np.zeros((len(indices), longest), precision)
    flat = rows.reshape(-1, columns)
    # some agents at a time, so that temporaries in double precision stay small
    for agents in some_of([part.size for part in indices]):
        held = np.concatenate([indices[agent] for agent in agents])
        place = np.concatenate([n * longest + np.arange(len(indices[n])) for n in agents])
        real = (held != EMPTY) & (True if absent is None else ~absent[held])
        for filled in row_blocks(np.flatnonzero(real), columns):
            some, where = held[filled], place[filled]
            flat[where] = clip_rows(_finite_rows(features, some), record_norm, precision)
            answers.flat[where] = targets[some]
            mask.flat[where] = 1
    counts = tuple(int(part.size) for part in indices)
    data = Shard(device_array(rows), jax_array(answers), jax_array(mask))
    return Shards(data, counts, float(record_norm), origin)


def origin_at(parts: Sequence[HostArray], persons: Persons | None) -> Origin:
    """Return the origin of the shards of these parts, with the row, and person, of each place."""
    if persons is None:
        return dataclasses.replace(origin_of(parts), rows=tuple(map(np.asarray, parts)))
    origin = dataclasses.replace(origin_of(parts), rows=tuple(map(persons.places, parts)))
    return dataclasses.replace(
        origin,
        reproducible=origin.reproducible or not persons.draw.is_secret,
        rows_per_person=persons.rows_per_person,
        agents_per_person=persons.most_agents(list(parts)),
        persons=np.unique(persons.numbers[np.concatenate(parts)]),
    )


def check_norms(shard: Shard, record_norm: float) -> None:
    """Raise `PrivacyError` unless every row of the shard, or of all agents' shards, is within R.

    Masked rows are checked too, since a question may ignore the mask.
    """
    features = on_host(shard.features)
    blocks = row_blocks(features.reshape(-1, features.shape[-1]), features.shape[-1])
    outside = sum(int(np.sum(~(row_norms(some) <= record_norm))) for some in blocks)
    if outside:
        raise PrivacyError(
            f"{outside} rows have a norm above {record_norm:g}; "
            "the sensitivity bound does not hold for them: pack the data again"
        )


def _storable(targets: HostArray, precision: Precision) -> HostArray:
    if np.issubdtype(targets.dtype, np.floating):
        if not np.all(np.isfinite(targets)):
            raise InputError("a target is NaN or infinite; drop its row or fill it in")
        return targets.astype(precision)
    if not np.issubdtype(targets.dtype, np.integer):
        raise InputError(f"targets are {targets.dtype}; give numbers, for example -1 and 1")
    return targets.astype(np.int32)


def _check_parts(features: Rows, targets: HostArray, parts: Sequence[HostArray]) -> None:
    if len(features.shape) != 2 or targets.shape != features.shape[:1]:
        raise InputError(
            f"features have shape {features.shape} and targets {targets.shape}; "
            "they must be (N, D) and (N,)"
        )
    if not len(parts):
        raise InputError("there are no parts; give the row indices of at least one agent")
    indices = [np.asarray(part) for part in parts]
    for agent, part in enumerate(indices):
        if part.size == 0:
            raise InputError(f"agent {agent} has no records; drop it or ask for fewer agents")
        if part.ndim != 1 or not np.issubdtype(part.dtype, np.integer):
            raise InputError(f"the part of agent {agent} must be a vector of integer row indices")
        if part.min() < 0 or part.max() >= len(targets):
            raise InputError(
                f"the part of agent {agent} names rows {part.min()}..{part.max()}; "
                f"the data has rows 0..{len(targets) - 1}"
            )
    uses = np.bincount(np.concatenate(indices), minlength=len(targets))
    if uses.max() > 1:
        raise InputError(
            f"row {uses.argmax()} is used {uses.max()} times; "
            "parts must be disjoint, so give each row to one agent"
        )


def _finite_rows(features: Rows, part: HostArray) -> HostArray:
    def no_numbers(_: Exception) -> Exception:
        return InputError(f"features are {features.dtype} and not all numbers; encode them first")

    rows = reraise_clean(
        lambda: features[part].astype(np.float64), (TypeError, ValueError), no_numbers
    )
    bad = np.argwhere(~np.isfinite(rows))
    if bad.size:
        row, column = bad[0]
        raise InputError(
            f"row {part[row]}, column {column} is NaN or infinite; "
            "drop rows with missing values or fill them in"
        )
    return rows


def row_norms(rows: Float[np.ndarray, "*A M D"]) -> Float[np.ndarray, "*A M"]:
    """Return |x|_2 of every row, computed in float64 without overflow or underflow."""
    wide = np.asarray(rows, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("...d,...d->...", wide, wide)
    norms: HostArray = np.sqrt(squares)
    # outside this range a relevant square may have overflowed or underflowed
    beyond = ~((squares > _LEAST_SQUARE) & (squares < 1 / _LEAST_SQUARE))
    sizes = np.abs(wide[beyond])
    largest = sizes.max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):  # an infinite cell has no norm
        scaled = sizes / np.where(largest > 0, largest, 1.0)
    norms[beyond] = largest[..., 0] * np.sqrt(np.einsum("md,md->m", scaled, scaled))
    return norms


def clip_rows(
    rows: Float[np.ndarray, "M D"], record_norm: float, precision: Precision
) -> Float[np.ndarray, "M D"]:
    """Return each row times min(1, R / |x|_2), in `precision`, of norm at most R after rounding.

    **Guarantee.** The true norm is at most R. A float64 norm of D terms is wrong by at most a
    factor 1 + (D/2 + 2) u, u = 2^-53, whatever the order of summation; a row is kept only if its
    computed norm times 1 + 2 (D + 4) u is at most R, so that every other way of computing the
    norm in float64 agrees. Rows with one non-zero cell have an exact norm and need no margin. For
    bounds near the smallest or beyond the largest number of the precision, where rounding cannot
    meet R, it raises `InputError`.
    """
    shrunk = _shrunk(np.asarray(rows, np.float64), record_norm, 1.0)
    with np.errstate(over="ignore"):  # infinite entries are refused below
        stored: HostArray = shrunk.astype(precision)
    spare = 1 - 2 * float(np.finfo(precision).eps) - 2 * _slack(stored)
    outside = np.arange(len(stored))
    for _ in range(8):
        # NaN counts as outside. Rows inside are not processed again, so that the running time does
        # not reveal whether a single row was outside
        outside = outside[~(_upper_norms(stored[outside]) <= record_norm)]
        if not outside.size:
            return stored
        exact = stored[outside].astype(np.float64)
        stored[outside] = _shrunk(exact, record_norm, spare).astype(precision)
    raise InputError(
        f"record_norm {record_norm:g} is out of the range of {precision}; rescale the data"
    )


def _slack(rows: HostArray) -> float:
    return float((rows.shape[-1] + 4) * np.finfo(np.float64).eps)


def _upper_norms(rows: HostArray) -> HostArray:
    wide = np.asarray(rows, np.float64)
    single = np.count_nonzero(wide, axis=-1) <= 1
    upper = row_norms(wide) * (1 + _slack(wide))
    upper[single] = np.abs(wide[single]).max(axis=-1, initial=0.0)
    return upper


def _shrunk(rows: HostArray, record_norm: float, spare: float) -> HostArray:
    norms = row_norms(rows)
    outside = norms > record_norm * spare
    factors = np.divide(record_norm * spare, norms, out=np.ones_like(norms), where=outside)
    shrunk: HostArray = rows * factors[:, None]
    return shrunk


def pad_shards(rows: int, shards: Shards) -> Shards:
    """Return the shards padded to this many rows for each agent."""
    if shards.stacked.mask.shape[1] == rows:
        return shards

    def padded(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, 0), (0, rows - leaf.shape[1]), *[(0, 0)] * (leaf.ndim - 2)])

    return dataclasses.replace(shards, stacked=jax.tree.map(padded, shards.stacked))
