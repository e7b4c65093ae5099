"""The proposal: everything public about a run, derived from a request and turned into a plan."""

from taciturn.proposal.data_facts import (
    WEIGHTS_ARE_PUBLIC,
    DataFacts,
    Evaluation,
    TableFacts,
    feature_conditions,
    labels_of,
    weighted,
    weights_by_label,
    weights_text,
)
from taciturn.proposal.document import Document, Extended, Part
from taciturn.proposal.forecast import known_forecast, risk_warning
from taciturn.proposal.parts import NONE, Budget, Named, Structure, check_seed, delta_warning
from taciturn.proposal.proposal import Proposal, network_rows, network_values
from taciturn.proposal.request import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    NetworkRequest,
    Request,
    StructureRequest,
    centre_text,
    centre_warning,
    chain_of,
    noise_of_centre,
    propose,
)

__all__ = [
    "DEFAULT_NETWORK", "DEFAULT_REGULARISER", "NONE", "WEIGHTS_ARE_PUBLIC", "Budget", "DataFacts",
    "Document", "Evaluation", "Extended", "Named", "NetworkRequest", "Part", "Proposal", "Request",
    "Structure", "StructureRequest", "TableFacts", "centre_text", "centre_warning", "chain_of",
    "check_seed", "delta_warning", "feature_conditions", "known_forecast", "labels_of",
    "network_rows", "network_values", "noise_of_centre", "propose", "risk_warning", "weighted",
    "weights_by_label", "weights_text",
]  # fmt: skip
