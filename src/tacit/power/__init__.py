"""Private power flow among zones: Ryu and Kim 2023, section 6.1 and appendix D."""

from tacit.power.agents import (
    DEFAULT_QUESTION,
    QUESTIONS,
    Grid,
    Question,
    Settings,
    grid,
    plan_grid,
    proximal_weight,
)
from tacit.power.case import BUNDLED, Case, bundled_case, chosen_case, parse_case, read_case
from tacit.power.flow import Flow, Optimum, central, solve_privately
from tacit.power.layout import layout
from tacit.power.network import Admittance, Network, admittance, network
from tacit.power.relaxation import Relaxation, relax
from tacit.power.zones import (
    Part,
    Zones,
    chosen_zones,
    grown_zones,
    parse_zones,
    parts,
    ties,
    zones_of,
)

__all__ = [
    "BUNDLED",
    "DEFAULT_QUESTION",
    "QUESTIONS",
    "Admittance",
    "Case",
    "Flow",
    "Grid",
    "Network",
    "Optimum",
    "Part",
    "Question",
    "Relaxation",
    "Settings",
    "Zones",
    "admittance",
    "bundled_case",
    "central",
    "chosen_case",
    "chosen_zones",
    "grid",
    "grown_zones",
    "layout",
    "network",
    "parse_case",
    "parse_zones",
    "parts",
    "plan_grid",
    "proximal_weight",
    "read_case",
    "relax",
    "solve_privately",
    "ties",
    "zones_of",
]
