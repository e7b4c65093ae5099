"""Problems: losses, regularisers, sets, private records and how they are shared among agents."""

from taciturn.problems.devices import Devices, digest_of_all, spread, spread_local
from taciturn.problems.division import (
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
from taciturn.problems.losses import (
    ClassWeighted,
    ClippedLoss,
    HuberHinge,
    Logistic,
    Loss,
    MarginLoss,
    MultinomialLogistic,
    RegressionLoss,
    Squared,
    clip_coefficient,
    default_clip,
    is_second,
)
from taciturn.problems.named import (
    CONSTRAINTS,
    LOSSES,
    REGULARISERS,
    constraint_named,
    default_loss,
    loss_named,
    regulariser_named,
    usage,
)
from taciturn.problems.operators import (
    Identity,
    Operator,
    Sparse,
    chain,
    differences,
    laplacian_smooth,
    smoothed_share,
    sparse_rows,
)
from taciturn.problems.problem import Problem, facts_from, public_facts
from taciturn.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from taciturn.problems.sets import Ball, Box, ConvexSet, Simplex, WholeSpace, soft_threshold
from taciturn.problems.shards import (
    PublicScale,
    Shard,
    Shards,
    check_norms,
    contiguous_partition,
    dirichlet_partition,
    for_exact_sums,
    pack,
    partition_by,
    replace_record,
    row_norms,
    within_norm,
    zero_record,
)
from taciturn.problems.solve import Solution, minimise
from taciturn.problems.structured import (
    ComposedL1,
    Structured,
    fused_lasso,
    generalised_lasso,
    lasso,
    structured_from,
)

__all__ = [
    "CONSTRAINTS", "DRAW_KEY_BYTES", "L1", "L2", "LOSSES", "REGULARISERS", "Ball", "Box",
    "ClassWeighted", "ClippedLoss", "ComposedL1", "ConvexSet", "Devices", "Draw", "ElasticNet",
    "HuberHinge", "Identity", "Logistic", "Loss", "MarginLoss", "MultinomialLogistic",
    "NoRegulariser", "Operator", "Origin", "Parts", "Persons", "Problem", "PublicScale",
    "RegressionLoss", "Regulariser", "Shard", "Shards", "Simplex", "Solution", "Sparse", "Squared",
    "Structured", "WholeSpace", "chain", "check_at_agents",
    "check_at_one_agent", "check_held_out", "check_norms",
    "check_origins", "clip_coefficient", "constraint_named", "contiguous_partition", "default_clip",
    "default_loss", "differences", "digest_of_all", "dirichlet_partition", "facts_from",
    "for_exact_sums", "fused_lasso", "generalised_lasso", "held_out_counts", "held_out_share",
    "hold_out", "is_second", "laplacian_smooth", "lasso", "loss_named", "minimise", "numbered",
    "origin_of", "pack", "partition_by", "public_facts", "random_partition", "regulariser_named",
    "replace_record", "row_norms", "smoothed_share", "soft_threshold", "sparse_rows", "spread",
    "spread_local", "structured_from", "usage", "within_norm", "zero_record",
]  # fmt: skip
