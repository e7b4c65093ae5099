"""The proposal: everything public about a run, derived from a request and turned into a plan."""

from taciturn.proposal.class_weights import (
    WEIGHTS_ARE_PUBLIC,
    labels_of,
    weight_conditions,
    weighted,
    weights_by_label,
    weights_text,
)
from taciturn.proposal.data_facts import DataFacts, TableFacts, feature_conditions
from taciturn.proposal.document import Document, Extended, Part
from taciturn.proposal.evaluation import Evaluation, evaluation_question
from taciturn.proposal.forecast import (
    known_forecast,
    risk_warning,
)
from taciturn.proposal.parts import (
    NONE,
    Budget,
    Connection,
    MethodChoice,
    Named,
    Structure,
    check_seed,
    graph_conditions,
)
from taciturn.proposal.proposal import Proposal, facts_of_method, network_rows, network_values
from taciturn.proposal.proposing import centre_text, centre_warning, noise_of_centre, propose
from taciturn.proposal.request import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    NetworkRequest,
    Request,
    StructureRequest,
    chain_of,
)

__all__ = [
    "DEFAULT_NETWORK",
    "DEFAULT_REGULARISER",
    "NONE",
    "WEIGHTS_ARE_PUBLIC",
    "Budget",
    "Connection",
    "DataFacts",
    "Document",
    "Evaluation",
    "Extended",
    "MethodChoice",
    "Named",
    "NetworkRequest",
    "Part",
    "Proposal",
    "Request",
    "Structure",
    "StructureRequest",
    "TableFacts",
    "centre_text",
    "centre_warning",
    "chain_of",
    "check_seed",
    "evaluation_question",
    "facts_of_method",
    "feature_conditions",
    "graph_conditions",
    "known_forecast",
    "labels_of",
    "network_rows",
    "network_values",
    "noise_of_centre",
    "propose",
    "risk_warning",
    "weight_conditions",
    "weighted",
    "weights_by_label",
    "weights_text",
]
