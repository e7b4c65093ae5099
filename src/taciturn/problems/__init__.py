"""Problems: losses, regularisers, sets, and the optimum without privacy."""

from taciturn.kernel.questions import Loss, RegressionLoss, Squared, clip_coefficient
from taciturn.problems.losses import (
    BoundedMultinomial,
    CappedExponential,
    ClassWeighted,
    ClippedLoss,
    CountLoss,
    HuberHinge,
    Logistic,
    MarginLoss,
    MultinomialLogistic,
    Poisson,
    default_clip,
    is_second,
    likelihood,
    weighted,
)
from taciturn.problems.named import (
    CONSTRAINTS,
    LOSSES,
    NONE,
    REGULARISERS,
    Name,
    Named,
    constraint_named,
    default_loss,
    loss_named,
    register,
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
from taciturn.problems.partition import contiguous_partition, dirichlet_partition, partition_by
from taciturn.problems.problem import Problem, facts_from, public_facts
from taciturn.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from taciturn.problems.responses import (
    CumulativeLogistic,
    DiscreteCloglog,
    DiscreteLogistic,
    Gamma,
    Huber,
    NegativeBinomial,
    PiecewiseExponential,
    SmoothedQuantile,
    Survival,
    in_target_units,
    survival_target,
)
from taciturn.problems.sets import (
    Ball,
    Box,
    ConvexSet,
    Direction,
    Monotone,
    Simplex,
    WholeSpace,
    isotonic,
    soft_threshold,
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
    "CONSTRAINTS", "L1", "L2", "LOSSES", "NONE", "REGULARISERS", "Ball", "BoundedMultinomial",
    "Box", "CappedExponential", "ClassWeighted", "ClippedLoss", "ComposedL1", "ConvexSet",
    "CountLoss", "CumulativeLogistic", "Direction", "DiscreteCloglog", "DiscreteLogistic",
    "ElasticNet", "Gamma", "Huber", "HuberHinge", "Identity", "Logistic", "Loss", "MarginLoss",
    "Monotone", "MultinomialLogistic", "Name", "Named", "NegativeBinomial", "NoRegulariser",
    "Operator", "PiecewiseExponential", "Poisson", "Problem", "RegressionLoss", "Regulariser",
    "Simplex", "SmoothedQuantile", "Solution", "Sparse", "Squared", "Structured", "Survival",
    "WholeSpace", "chain", "clip_coefficient", "constraint_named", "contiguous_partition",
    "default_clip", "default_loss", "differences", "dirichlet_partition", "facts_from",
    "fused_lasso", "generalised_lasso", "in_target_units", "is_second", "isotonic",
    "laplacian_smooth", "lasso", "likelihood", "loss_named", "minimise", "partition_by",
    "public_facts", "register", "regulariser_named", "smoothed_share", "soft_threshold",
    "sparse_rows", "structured_from", "survival_target", "usage", "weighted",
]  # fmt: skip
