"""Privacy: neighbours and sensitivities, noise and its accounting, composition, certificates."""

from taciturn.kernel.privacy.accounting import (
    LEAST_RATE,
    MOST_EPSILON_OF_POISSON,
    Event,
    Exact,
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    PerturbedAnswer,
    Sampled,
    account,
    sampled,
)
from taciturn.kernel.privacy.certificate import (
    REAL_NUMBERS,
    SCOPE,
    Certificate,
    trust_without_honest_agents,
)
from taciturn.kernel.privacy.composition import Composition, compose
from taciturn.kernel.privacy.drawn import (
    LEAST_NUMBERS,
    PER_VALUE,
    Drawn,
    noise_statistic,
    noise_test,
)
from taciturn.kernel.privacy.gaussian import delta_of, epsilon_of
from taciturn.kernel.privacy.ledger import (
    NO_QUESTION,
    ChoiceLeg,
    Inside,
    Ledger,
    Leg,
    folded,
)
from taciturn.kernel.privacy.mechanisms import (
    LEAST_SCALE,
    Gaussian,
    Laplace,
    Law,
    Mechanism,
    NoNoise,
    eta1,
    eta2,
    lattice_width,
    mu_of_choice,
    remaining_delta,
)
from taciturn.kernel.privacy.objective import objective_deltas
from taciturn.kernel.privacy.terms import (
    MOST_EPSILON,
    Adjacency,
    BoundedChange,
    Messages,
    Norm,
    Observer,
    Relation,
    ReplaceOne,
    SensitivityBound,
    Sum,
    TargetChange,
    Terms,
    Unit,
    ZeroOut,
)

__all__ = [
    "LEAST_NUMBERS", "LEAST_RATE", "LEAST_SCALE", "MOST_EPSILON", "MOST_EPSILON_OF_POISSON",
    "NO_QUESTION", "PER_VALUE", "REAL_NUMBERS", "SCOPE", "Adjacency", "BoundedChange",
    "Certificate", "ChoiceLeg", "Composition", "Drawn", "Event", "Exact", "FixedSize", "Gaussian",
    "GaussianAnswer", "Inside", "Laplace", "LaplaceAnswer", "Law", "Ledger", "Leg", "Mechanism",
    "Messages", "NoNoise", "Norm", "Observer", "PerturbedAnswer", "Relation", "ReplaceOne",
    "Sampled", "SensitivityBound", "Sum", "TargetChange", "Terms", "Unit", "ZeroOut", "account",
    "compose", "delta_of", "epsilon_of", "eta1", "eta2", "folded", "lattice_width", "mu_of_choice",
    "noise_statistic", "noise_test", "objective_deltas", "remaining_delta", "sampled",
    "trust_without_honest_agents",
]  # fmt: skip
