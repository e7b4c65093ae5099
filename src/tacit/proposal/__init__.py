"""From what a person says to a plan: the proposal, and the only road from names to methods."""

from tacit.proposal.connection import DEFAULT_NETWORK, Wanted
from tacit.proposal.document import Document, Extended, Part
from tacit.proposal.parts import (
    NONE,
    Budget,
    Chosen,
    Connection,
    DataFacts,
    Named,
    Structure,
    TableFacts,
)
from tacit.proposal.proposal import Proposal, check_seed
from tacit.proposal.request import DEFAULT_REGULARISER, Request, propose
from tacit.proposal.structures import (
    StructureWanted,
    chain_of,
    graph_conditions,
    graph_warning,
)

__all__ = [
    "DEFAULT_NETWORK",
    "DEFAULT_REGULARISER",
    "NONE",
    "Budget",
    "Chosen",
    "Connection",
    "DataFacts",
    "Document",
    "Extended",
    "Named",
    "Part",
    "Proposal",
    "Request",
    "Structure",
    "StructureWanted",
    "TableFacts",
    "Wanted",
    "chain_of",
    "check_seed",
    "graph_conditions",
    "graph_warning",
    "propose",
]
