"""Records: rows of bounded norm on a grid, divided among agents, sides and persons."""

from taciturn.kernel.records.devices import Devices, digest_of_all, shards_of_process, spread
from taciturn.kernel.records.division import (
    DRAW_KEY_BYTES,
    Draw,
    Origin,
    Parts,
    Persons,
    Side,
    check_at_agents,
    check_at_one_agent,
    check_held_out,
    check_origins,
    check_sizes,
    held_out_counts,
    held_out_share,
    hold_out,
    numbered,
    origin_of,
    random_partition,
    rows_by_owner,
)
from taciturn.kernel.records.memory import device_array, jax_array, row_blocks
from taciturn.kernel.records.shards import (
    Shard,
    Shards,
    check_norms,
    clip_rows,
    for_exact_sums,
    origin_at,
    pack,
    pad_shards,
    row_norms,
)
from taciturn.kernel.records.spec import Spec

__all__ = [
    "DRAW_KEY_BYTES", "Devices", "Draw", "Origin", "Parts", "Persons", "Shard", "Shards", "Side",
    "Spec", "check_at_agents", "check_at_one_agent", "check_held_out", "check_norms",
    "check_origins", "check_sizes", "clip_rows", "device_array", "digest_of_all", "for_exact_sums",
    "held_out_counts", "held_out_share", "hold_out", "jax_array", "numbered", "origin_at",
    "origin_of", "pack", "pad_shards", "random_partition", "row_blocks", "row_norms",
    "rows_by_owner", "shards_of_process", "spread",
]  # fmt: skip
