"""Records: rows of an enforced norm, on a grid, of owners and persons, divided among agents."""

from taciturn.kernel.records.devices import Devices, digest_of_all, spread, spread_local
from taciturn.kernel.records.division import (
    DRAW_KEY_BYTES,
    Draw,
    Origin,
    Parts,
    Persons,
    check_at_agents,
    check_at_one_agent,
    check_held_out,
    check_origins,
    held_out_counts,
    held_out_share,
    hold_out,
    numbered,
    origin_of,
    random_partition,
)
from taciturn.kernel.records.memory import device_array, give_back, in_pieces, on_host, own_array
from taciturn.kernel.records.shards import (
    PublicScale,
    Shard,
    Shards,
    check_norms,
    contiguous_partition,
    dirichlet_partition,
    for_exact_sums,
    pack,
    padded_to,
    partition_by,
    replace_record,
    row_norms,
    within_norm,
    zero_record,
)
from taciturn.kernel.records.spec import Spec

__all__ = [
    "DRAW_KEY_BYTES", "Devices", "Draw", "Origin", "Parts", "Persons", "PublicScale", "Shard",
    "Shards", "Spec", "check_at_agents", "check_at_one_agent", "check_held_out", "check_norms",
    "check_origins", "contiguous_partition", "device_array", "digest_of_all",
    "dirichlet_partition", "for_exact_sums", "give_back", "held_out_counts", "held_out_share",
    "hold_out", "in_pieces", "numbered", "on_host", "origin_of", "own_array", "pack", "padded_to",
    "partition_by", "random_partition", "replace_record", "row_norms", "spread", "spread_local",
    "within_norm", "zero_record",
]  # fmt: skip
