"""The proposal: everything public about a run, derived from a request and turned into a plan."""

from tacit.proposal.document import Document, Extended, Part
from tacit.proposal.parts import (
    NONE,
    Budget,
    Connection,
    DataFacts,
    MethodChoice,
    Named,
    Structure,
    TableFacts,
)
from tacit.proposal.proposal import Proposal, check_seed
from tacit.proposal.request import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    NetworkRequest,
    Request,
    propose,
)
from tacit.proposal.structures import (
    StructureRequest,
    chain_of,
    graph_conditions,
    graph_warning,
)

__all__ = [
    "DEFAULT_NETWORK",
    "DEFAULT_REGULARISER",
    "NONE",
    "Budget",
    "Connection",
    "DataFacts",
    "Document",
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
    "chain_of",
    "check_seed",
    "graph_conditions",
    "graph_warning",
    "propose",
]
