"""A site's own records, as its doors take them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.engine import Plan, Private
from taciturn.engine.protocol import at
from taciturn.engine.running import check_shards, check_targets, opened
from taciturn.problems import Draw, Shard, Shards, hold_out
from taciturn.proposal import Proposal
from taciturn.tables import Files, table_of
from taciturn.training import DividedData, Division, divide_records, storage_precision


def own_records(files: Files, proposal: Proposal, agent: int, draw: Draw) -> DividedData:
    """Return the records of the file as those of one agent, in the order of the file.

    Those that the draw holds out for an evaluation are apart (`taciturn.problems.hold_out`), and it
    chooses the rows of a person. A site that starts again uses the draw of its first start, or it
    would train on records held out, and on more rows of a person than count.
    """
    division = Division.of_proposal(proposal, owned=False)
    data = divide_records(
        table_of(files, precision=storage_precision(proposal, files.source)),
        dataclasses.replace(division, agents=1, evaluate=None),
        draw,
    )
    rows = (np.arange(files.rows),)
    if proposal.evaluation is None or not proposal.evaluation.counts[agent]:
        return dataclasses.replace(data, owners=rows)
    kept, held = hold_out(
        rows,
        proposal.evaluation.share,
        draw=draw,
        persons=data.persons,
        first=agent,
    )
    return dataclasses.replace(data, owners=kept, held_out=held)


def private_of(shards: Shards, plan: Plan) -> Private:
    """Return one agent's records as its door takes them, in as many places as the largest has.

    Padded like the largest agent's, its sums are those of a run on one machine.
    """
    check_shards(shards)
    check_targets(plan, shards)
    rows = max(plan.spec.counts)
    stacked: Shard = jax.tree.map(lambda leaf: _padded(leaf, rows), shards.stacked)
    shards = Shards(stacked, shards.counts, shards.record_norm, shards.origin)
    both = opened(plan.program.oracles, plan.program.mechanism, shards)
    one: Private = at(both, 0)
    return one


def _padded(leaf: jax.Array, rows: int) -> jax.Array:
    missing = rows - leaf.shape[1]
    return jnp.pad(leaf, [(0, 0), (0, missing), *[(0, 0)] * (leaf.ndim - 2)])
