"""Problems: losses, regularisers, sets, private records and how they are shared among agents."""

from tacit.problems.agent_sets import AgentSets
from tacit.problems.clipping import clip_coefficient, default_clip
from tacit.problems.cones import Cone
from tacit.problems.conic import ConicSet, polyhedron
from tacit.problems.facts import facts_from, public_facts
from tacit.problems.losses import HuberHinge, Logistic, Loss, Squared
from tacit.problems.multinomial import MultinomialLogistic
from tacit.problems.named import (
    CONSTRAINTS,
    LOSSES,
    REGULARISERS,
    constraint_named,
    default_loss,
    loss_named,
    regulariser_named,
    usage,
)
from tacit.problems.neighbours import replace_record, zero_record
from tacit.problems.norms import row_norms, within_norm
from tacit.problems.operators import (
    Identity,
    Operator,
    Sparse,
    Stack,
    chain,
    differences,
    laplacian_smooth,
    sparse_rows,
)
from tacit.problems.partition import (
    contiguous_partition,
    dirichlet_partition,
    partition_by,
    random_partition,
)
from tacit.problems.problem import Problem
from tacit.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from tacit.problems.sets import Ball, Box, ConvexSet, Simplex, WholeSpace, soft_threshold
from tacit.problems.shards import PublicScale, Shard, Shards, check_norms, pack
from tacit.problems.solve import Solution, minimise
from tacit.problems.structured import (
    ComposedL1,
    Structured,
    fused_lasso,
    generalised_lasso,
    lasso,
    structured_from,
)

__all__ = [
    "CONSTRAINTS",
    "L1",
    "L2",
    "LOSSES",
    "REGULARISERS",
    "AgentSets",
    "Ball",
    "Box",
    "ComposedL1",
    "Cone",
    "ConicSet",
    "ConvexSet",
    "ElasticNet",
    "HuberHinge",
    "Identity",
    "Logistic",
    "Loss",
    "MultinomialLogistic",
    "NoRegulariser",
    "Operator",
    "Problem",
    "PublicScale",
    "Regulariser",
    "Shard",
    "Shards",
    "Simplex",
    "Solution",
    "Sparse",
    "Squared",
    "Stack",
    "Structured",
    "WholeSpace",
    "chain",
    "check_norms",
    "clip_coefficient",
    "constraint_named",
    "contiguous_partition",
    "default_clip",
    "default_loss",
    "differences",
    "dirichlet_partition",
    "facts_from",
    "fused_lasso",
    "generalised_lasso",
    "laplacian_smooth",
    "lasso",
    "loss_named",
    "minimise",
    "pack",
    "partition_by",
    "polyhedron",
    "public_facts",
    "random_partition",
    "regulariser_named",
    "replace_record",
    "row_norms",
    "soft_threshold",
    "sparse_rows",
    "structured_from",
    "usage",
    "within_norm",
    "zero_record",
]
