"""Records: rows of bounded norm on a grid, divided among agents, sides and persons."""

from taciturn.kernel.records.devices import Devices, digest_of_all, spread, spread_local
from taciturn.kernel.records.division import (
    DRAW_KEY_BYTES,
    Draw,
    Origin,
    Parts,
    Persons,
    Side,
    by_owner,
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
)
from taciturn.kernel.records.memory import device_array, in_pieces, own_array
from taciturn.kernel.records.shards import (
    Shard,
    Shards,
    check_norms,
    for_exact_sums,
    origin_at,
    pack,
    padded_to,
    row_norms,
    within_norm,
)
from taciturn.kernel.records.spec import Spec

__all__ = [
    "DRAW_KEY_BYTES", "Devices", "Draw", "Origin", "Parts", "Persons", "Shard",
    "Shards", "Side", "Spec", "by_owner", "check_at_agents", "check_at_one_agent", "check_held_out",
    "check_norms", "check_origins", "check_sizes", "device_array", "digest_of_all",
    "for_exact_sums", "held_out_counts", "held_out_share", "hold_out", "in_pieces", "numbered",
    "origin_at", "origin_of", "own_array", "pack", "padded_to", "random_partition", "row_norms",
    "spread", "spread_local", "within_norm",
]  # fmt: skip
