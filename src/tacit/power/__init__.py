"""Private power flow among zones: the cheapest dispatch, or a state that zones agree on.

The latter is section 6.1 and appendix D of Ryu and Kim 2023.
"""

from tacit.power.balance.agents import (
    DEFAULT_QUESTION,
    QUESTIONS,
    Grid,
    Question,
    Settings,
    grid,
    plan_grid,
    proximal_weight,
)
from tacit.power.balance.flow import Flow, Optimum, central, solve_privately
from tacit.power.cases.case import BUNDLED, Case, Elements, bundled_case, parse_case
from tacit.power.cases.pandapower_net import pandapower_case
from tacit.power.cases.reading import chosen_case, is_published, read_case
from tacit.power.day.series import Series, read_series, read_weights
from tacit.power.day.smoothing import smoothed
from tacit.power.day.study import DayProposal, DayStudy, solve_day
from tacit.power.grids.layout import layout
from tacit.power.grids.network import Admittance, Network, admittance, network
from tacit.power.grids.relaxation import Relaxation, relax
from tacit.power.grids.zones import (
    Part,
    Zones,
    chosen_zones,
    grown_zones,
    parse_zones,
    parts,
    ties,
    zones_of,
)
from tacit.power.models.cost import Costs, costs, has_costs
from tacit.power.models.dc import restored, solve_dc, widest
from tacit.power.models.dc_network import DcModel, dc_model
from tacit.power.models.dispatch import MODELS, Dispatch, Model
from tacit.power.models.recourse import Realised, Tightening, realised, tightening
from tacit.power.models.soc import Exactness, SocOptimum, solve_soc
from tacit.power.moment.asking import HIDDEN, Hidden, plan_demand
from tacit.power.moment.export import pandapower_results
from tacit.power.moment.opf import OpfProposal, OpfStudy, solve_opf, solved_at
from tacit.power.moment.price import Price, met, optimum, price_of_privacy

__all__ = [
    "BUNDLED",
    "DEFAULT_QUESTION",
    "HIDDEN",
    "MODELS",
    "QUESTIONS",
    "Admittance",
    "Case",
    "Costs",
    "DayProposal",
    "DayStudy",
    "DcModel",
    "Dispatch",
    "Elements",
    "Exactness",
    "Flow",
    "Grid",
    "Hidden",
    "Model",
    "Network",
    "OpfProposal",
    "OpfStudy",
    "Optimum",
    "Part",
    "Price",
    "Question",
    "Realised",
    "Relaxation",
    "Series",
    "Settings",
    "SocOptimum",
    "Tightening",
    "Zones",
    "admittance",
    "bundled_case",
    "central",
    "chosen_case",
    "chosen_zones",
    "costs",
    "dc_model",
    "grid",
    "grown_zones",
    "has_costs",
    "is_published",
    "layout",
    "met",
    "network",
    "optimum",
    "pandapower_case",
    "pandapower_results",
    "parse_case",
    "parse_zones",
    "parts",
    "plan_demand",
    "plan_grid",
    "price_of_privacy",
    "proximal_weight",
    "read_case",
    "read_series",
    "read_weights",
    "realised",
    "relax",
    "restored",
    "smoothed",
    "solve_day",
    "solve_dc",
    "solve_opf",
    "solve_privately",
    "solve_soc",
    "solved_at",
    "ties",
    "tightening",
    "widest",
    "zones_of",
]
