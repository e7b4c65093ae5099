"""Problems: losses, regularisers, sets, private records and how they are shared among agents."""

from tacit.problems.agent_cones import (
    AgentCones,
    ConeProgram,
    cones_of_agents,
    quadratic_minimum,
)
from tacit.problems.clipping import clip_coefficient
from tacit.problems.facts import public_facts
from tacit.problems.losses import HuberHinge, Logistic, Loss, Squared
from tacit.problems.multinomial import MultinomialLogistic
from tacit.problems.neighbours import replace_record, zero_record
from tacit.problems.norms import row_norms, within_norm
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

__all__ = [
    "L1",
    "L2",
    "AgentCones",
    "Ball",
    "Box",
    "ConeProgram",
    "ConvexSet",
    "ElasticNet",
    "HuberHinge",
    "Logistic",
    "Loss",
    "MultinomialLogistic",
    "NoRegulariser",
    "Problem",
    "PublicScale",
    "Regulariser",
    "Shard",
    "Shards",
    "Simplex",
    "Solution",
    "Squared",
    "WholeSpace",
    "check_norms",
    "clip_coefficient",
    "cones_of_agents",
    "contiguous_partition",
    "dirichlet_partition",
    "minimise",
    "pack",
    "partition_by",
    "public_facts",
    "quadratic_minimum",
    "random_partition",
    "replace_record",
    "row_norms",
    "soft_threshold",
    "within_norm",
    "zero_record",
]
