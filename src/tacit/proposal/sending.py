"""What is said of a network: along which edges a run sends, how much, and who reads it."""

from __future__ import annotations

from typing import Any

from tacit.engine import traffic_of
from tacit.engine.planning import Plan
from tacit.proposal.parts import Connection
from tacit.proposal.proposal import Proposal


def network_rows(proposal: Proposal, plan: Plan) -> list[tuple[str, str]]:
    """Return (name, value) of the network of a plan and of what is sent on it; none on a star."""
    network = proposal.network
    if network is None:
        return []
    messages, numbers = traffic_of(plan.program)
    given = [("walk", network.walk), ("cap", network.cap)]
    if network.exchanges > 1:
        given.append(("exchanges of a message", network.exchanges))
    return [
        ("network", network.name),
        *((name, str(value)) for name, value in given if value),
        *_tree_rows(network, plan),
        ("messages sent", f"{messages:,}, one along one edge"),
        ("numbers sent", f"{numbers:,}"),
    ]


_MESSAGES = (
    "an agent: the sum of the noised messages below each of its edges, its neighbour's own message "
    "at the end of a branch, and the total; a reader of all edges: every noised message, which the "
    "certificate is for"
)
_SUMS = (
    "everybody: the total over all agents; what travels up an edge is under masks, and looks "
    "random short of all agents"
)


def _tree_rows(network: Connection, plan: Plan) -> list[tuple[str, str]]:
    if network.kind != "tree":
        return []
    tree: Any = plan.network
    return [
        (
            "sums along",
            f"a spanning tree of depth {tree.depth} from agent {tree.root}: in every round "
            f"sums go up its {plan.spec.agents - 1} edges, and the total down",
        ),
        ("who reads what", _SUMS if plan.program.summed else _MESSAGES),
        ("a lost agent", "the round waits for it: no total is formed without every agent"),
    ]


def network_values(proposal: Proposal, plan: Plan) -> dict[str, Any]:
    """Return the same as JSON values; nothing on a star."""
    network = proposal.network
    if network is None:
        return {}
    messages, numbers = traffic_of(plan.program)
    values: dict[str, Any] = {
        "name": network.name,
        "kind": network.kind,
        "messages_sent": messages,
        "numbers_sent": numbers,
    }
    if network.kind == "tree":
        tree: Any = plan.network
        values |= {"root": tree.root, "depth": tree.depth}
    return {"network": values}
