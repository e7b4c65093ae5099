"""Checks before records are opened: facts, part, norms, and the machine's arithmetic."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Mechanism, NoNoise, Terms
from taciturn.kernel.questions import Loss, Oracle, Targets, custom_classes
from taciturn.kernel.records import (
    Origin,
    Shards,
    Side,
    Spec,
    check_at_agents,
    check_norms,
    check_origins,
    for_exact_sums,
    pad_shards,
)
from taciturn.kernel.records.memory import (
    device_array,
    held_here,
    jax_array,
    on_host,
    stays_in_cache,
)
from taciturn.typing import HostArray


def check_arithmetic() -> None:
    """Raise `PrivacyError` unless this machine computes as bounds and exact sums assume.

    Tested before every run, since JAX's settings can change: sums of 500 products of 18 by 26
    digits, which stay below 2^53 and are exact in every order under IEEE 754
    (`taciturn.kernel.records.grid`), but not where a machine multiplies in fewer digits; and that
    NaN and infinity are recognised, which `clip_coefficient` needs and fast-math flags break.

    **Guarantee.** |partial sum| <= 2^p 2^q n <= 2^53 holds for every subset of the terms, so for
    every partial sum in every tree of additions: of vector lanes, cores, devices or processes. So
    answers do not depend on how a run is divided. Sums of messages over agents come after the
    noise: those of whole steps, in 64 bits, are exact modulo 2^64 in any order; the last digits of
    others depend on the order, which is post-processing.
    """
    draw = np.random.default_rng(0)

    def whole(digits: int, *shape: int) -> HostArray:
        return draw.integers(-(2**digits), 2**digits, shape)

    given = (whole(18, 500, 97), whole(26, 500), whole(26, 500, 10), whole(26, 97))
    computed = _products(*(jax_array(part, np.float64) for part in given))
    rows, one, several, point = given
    truth = (one @ rows, rows.T @ several, rows @ point)
    for ours, exact in zip(computed, truth, strict=True):
        if ours.dtype != jnp.float64 or not np.array_equal(np.asarray(ours), exact):
            raise PrivacyError(
                f"this machine ({jax.default_backend()}) rounds sums of whole numbers below 2^53: "
                "no certificate holds for what it computes; run on a CPU in double precision"
            )

    # compilers can be told to assume that there are no such numbers
    special = np.array([np.nan, np.inf, -np.inf, 1e300, 3.0, 0.0])
    seen = [np.asarray(part) for part in _special(jax_array(special, np.float64))]
    with np.errstate(over="ignore", divide="ignore"):
        known = (np.isnan(special), np.isfinite(special), special * 1e10, 1 / special)
    if not all(np.array_equal(*pair, equal_nan=True) for pair in zip(seen, known, strict=True)):
        raise PrivacyError(
            f"this machine ({jax.default_backend()}) does not recognise NaN or infinity: no "
            "certificate holds for what it computes; leave out XLA_FLAGS for fast arithmetic"
        )


@jax.jit
def _special(values: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.isnan(values), jnp.isfinite(values), values * 1e10, 1 / values


@jax.jit
def _products(
    rows: jax.Array, one: jax.Array, several: jax.Array, point: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jnp.matmul(one, rows), jnp.matmul(several.T, rows).T, rows @ point


def check_exact_noise(oracles: tuple[Oracle, ...]) -> None:
    """Raise `PrivacyError` unless the noised answers have the law that the certificate states."""
    for oracle in oracles:
        if not oracle.holds_on_machine():
            raise PrivacyError(
                f"no certificate holds for what {type(oracle).__name__} computes here: how far "
                "rounding moves it is unknown. Give a seed for a reproduction, use a method that "
                "adds its noise to a gradient, keep a set without a closed form at the server, or "
                "declare in a question of your own that it is exact (exact_on_machine)"
            )


def opened(  # noqa: PLR0913 - records, and all that they must agree with
    oracles: tuple[Oracle, ...],
    mechanism: Mechanism,
    spec: Spec,
    terms: Terms,
    shards: Shards,
    *,
    precision: Any,
    loss: Loss | None,
    part: Side,
    trained_on: Origin | None = None,
    agent: int | None = None,
) -> Private:
    """Return records, checked, in the form that a door for these questions and this noise needs.

    Raises as `check_facts`, `check_part`, `check_shards`, `check_targets` and `check_blocks`.

    - `spec`, `terms`, `precision`: Those of the plan.
    - `loss`: That of the method; None if it has none.
    - `part`: The part of the records that the certificate states.
    - `trained_on`: For held-out records, the origin of those that the model was trained on.
    - `agent`: The single agent whose records these are, padded to the longest agent's length, so
      that its sums equal those of a run on one machine. None: all agents.
    """
    mine = spec
    if agent is not None:
        mine = dataclasses.replace(spec, counts=spec.counts[agent : agent + 1])
    check_facts(mine, terms, precision, shards)
    check_part(part, shards.origin, trained_on)
    check_shards(shards)
    check_targets(loss, shards)
    check_blocks(oracles, shards.origin)
    return prepared(oracles, mechanism, pad_shards(max(spec.counts), shards))


def prepared(oracles: tuple[Oracle, ...], mechanism: Mechanism, shards: Shards) -> Private:
    """Return checked records in the form that a door for these questions and this noise needs.

    **Guarantee.** Rows on a grid are stored in single precision only if that holds all of their
    digits and every question widens the rows it reads. Rows that fit the cache are stored wide,
    which is faster.
    """
    if isinstance(mechanism, NoNoise):
        return Private(shards.stacked, jax_array(shards.counts, shards.stacked.features.dtype))
    targets = shards.stacked.targets.dtype
    if targets != np.float64 and any(oracle.protects_targets for oracle in oracles):
        raise PrivacyError(
            f"targets are kept in {targets}, and rounding could move a protected one further than "
            "its bound says; pack in float64"
        )
    rows = shards.stacked.mask.shape[-1]
    slots = max(oracle.sampling.slots(rows) for oracle in oracles)
    narrow = all(oracle.takes_narrow_rows() for oracle in oracles)
    narrow &= not stays_in_cache(shards.stacked.features.size)
    shard = for_exact_sums(shards, slots=slots, narrow=narrow)
    if not any(oracle.sums_records for oracle in oracles):
        given = shards.stacked.features
        wide = device_array(on_host(given).astype(np.float64), given)
        shard = dataclasses.replace(shard, features=wide, grid=None)
    return Private(shard, jax_array(shards.counts, np.float64))


def check_shards(shards: Shards) -> None:
    """Raise `PrivacyError` unless the records are as the sensitivity bounds assume.

    Every row, masked or not, is finite and of norm at most R, every mask is 0 or 1, and there is
    one block of rows per public count, with no more records than that.
    """
    check_norms(shards.stacked, shards.record_norm)
    mask = on_host(shards.stacked.mask)
    if not np.all((mask == 0) | (mask == 1)):
        raise PrivacyError("a mask is neither 0 nor 1, so a record would be weighted; pack again")
    if not np.all(np.isfinite(on_host(shards.stacked.targets))):
        raise PrivacyError("a target is not finite, so an answer would reveal it; pack again")
    blocks = len(shards.stacked.mask)
    if blocks != len(shards.counts):
        raise PrivacyError(
            f"there are {blocks} blocks of records for {len(shards.counts)} counts; pack again"
        )
    held = np.array(shards.counts)[held_here(shards.stacked.mask)]
    if mask.shape[1] != max(shards.counts) or np.any(np.count_nonzero(mask, axis=1) > held):
        raise PrivacyError("an agent has more records than its public count; pack again")


def check_facts(spec: Spec, terms: Terms, precision: Any, shards: Shards) -> None:
    """Raise `InputError` unless the public facts about the shards are those of the plan.

    `PrivacyError` for shards without an origin, which `pack` did not make.
    """
    origin, adjacency = shards.origin, terms.adjacency
    if origin is None:
        raise PrivacyError(
            "the origin of these shards' records is unknown, so one could be in two "
            "answers; make them with pack"
        )
    packed, wanted = (
        "records" if rows is None else f"persons with {rows} places each"
        for rows in (origin.rows_per_person, adjacency.rows_per_person)
    )
    if packed != wanted:
        raise InputError(
            f"the plan protects {wanted}, and the shards were packed for {packed}; pack them with "
            "the persons of the plan, or plan again"
        )
    check_at_agents(origin.agents_per_person, adjacency.agents_per_person)
    features = shards.stacked.features
    of_shards = {
        "records that are dealt at random": origin.dealt,
        "record counts": shards.counts,
        "record norm": shards.record_norm,
        "columns": f"{features.shape[-1]} features in {features.dtype}",
    }
    columns = f"{spec.shape[0]} features in {precision}"
    planned = (spec.dealt, spec.counts, spec.record_norm, columns)
    for (name, has), needs in zip(of_shards.items(), planned, strict=True):
        if has != needs:
            # a count that differs from the declared one may be private, so it is not quoted
            values = "" if name == "record counts" else f" ({has}, not {needs})"
            raise InputError(
                f"the shards have other {name} than the plan{values}; pack them as it says, or "
                "plan again with their own facts"
            )


def check_part(part: Side, origin: Origin | None, trained_on: Origin | None) -> None:
    """Raise `PrivacyError` unless records are of the part that the certificate states.

    **Guarantee.** Disjoint parts together cost the larger of the two
    (`taciturn.kernel.privacy.compose`), so held-out records are compared with those trained on.
    """
    if part == "held out":
        check_origins(trained_on, origin)
    elif origin is not None and origin.side == "held out":
        raise PrivacyError(
            "these records were held out, and would be trained on; pack the training side"
        )


def check_blocks(oracles: tuple[Oracle, ...], origin: Origin | None) -> None:
    """Raise `PrivacyError` if a question asks for targets by step that records do not lay out.

    **Guarantee.** `taciturn.kernel.questions.bounds.targets` counts a unit's targets in one block.
    `pack` puts the rows of a person side by side, so that all of them would be in a single block.
    """
    steps = {one.steps for one in oracles if isinstance(one, Targets) and (one.steps or 1) > 1}
    if steps and (origin is None or steps != {origin.steps}):
        raise PrivacyError(
            "targets are asked for step by step, and these records have no block for each step, so "
            "that an answer could move further than its bound; lay them out step by step"
        )


def check_targets(loss: Loss | None, shards: Shards) -> None:
    """Raise `InputError` if a record's target is outside the domain of the loss.

    A margin loss, for instance, has the targets -1 and 1: with 0 and 1 it would silently learn from
    half of the records.

    **Guarantee.** Privacy does not rest on this check: bounds hold for all targets
    (`Loss.within_domain`, clipped coefficients). It depends on private targets, so it comes after
    the charge, which stays, and it is constant on neighbouring data sets: possible targets are
    declared public, and declared labels are mapped to those of the loss wherever this library packs
    them. Only targets packed by hand can fail. A custom loss is not called: it would see all
    records at once, and could remember or reveal them.
    """
    if loss is not None and not custom_classes(loss):
        real = on_host(shards.stacked.mask) > 0
        loss.check_targets(on_host(shards.stacked.targets)[real])
