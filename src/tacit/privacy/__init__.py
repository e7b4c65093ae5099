"""Privacy: what is protected, how far it can move an answer, the noise, and what it all costs."""

from tacit.privacy.accounting import (
    Spending,
    account,
    multiplier_for,
    multiplier_for_all,
)
from tacit.privacy.bounds import Norm, SensitivityBound, mean_gradient_bound, share_text
from tacit.privacy.certificate import Certificate, certify, delta_warning
from tacit.privacy.choosing import mu_of_choice, rate_of_choice
from tacit.privacy.drawn import (
    LEAST_NUMBERS,
    Drawn,
    drawn_noise,
    noise_test,
)
from tacit.privacy.events import (
    Event,
    Exact,
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    PerturbedAnswer,
    Sampled,
    sampled,
)
from tacit.privacy.gaussian import (
    compose,
    delta_of,
    epsilon_of,
    gaussian_multiplier,
    mu_of,
    true_positive_rate,
)
from tacit.privacy.inside import Inside
from tacit.privacy.joining import joined
from tacit.privacy.lattice import lattice_epsilon
from tacit.privacy.ledger import NO_QUESTION, Ledger
from tacit.privacy.mechanisms import Gaussian, Laplace, Mechanism, NoNoise
from tacit.privacy.objective import objective_deltas
from tacit.privacy.terms import (
    Adjacency,
    BoundedChange,
    Messages,
    Observer,
    Relation,
    ReplaceOne,
    Sum,
    TargetChange,
    Terms,
    Unit,
    ZeroOut,
    observer_named,
    relation_named,
)

__all__ = [
    "LEAST_NUMBERS",
    "NO_QUESTION",
    "Adjacency",
    "BoundedChange",
    "Certificate",
    "Drawn",
    "Event",
    "Exact",
    "FixedSize",
    "Gaussian",
    "GaussianAnswer",
    "Inside",
    "Laplace",
    "LaplaceAnswer",
    "Ledger",
    "Mechanism",
    "Messages",
    "NoNoise",
    "Norm",
    "Observer",
    "PerturbedAnswer",
    "Relation",
    "ReplaceOne",
    "Sampled",
    "SensitivityBound",
    "Spending",
    "Sum",
    "TargetChange",
    "Terms",
    "Unit",
    "ZeroOut",
    "account",
    "certify",
    "compose",
    "delta_of",
    "delta_warning",
    "drawn_noise",
    "epsilon_of",
    "gaussian_multiplier",
    "joined",
    "lattice_epsilon",
    "mean_gradient_bound",
    "mu_of",
    "mu_of_choice",
    "multiplier_for",
    "multiplier_for_all",
    "noise_test",
    "objective_deltas",
    "observer_named",
    "rate_of_choice",
    "relation_named",
    "sampled",
    "share_text",
    "true_positive_rate",
]
