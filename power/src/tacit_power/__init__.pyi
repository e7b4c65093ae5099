from tacit_power.balance.agents import (
    DEFAULT_QUESTION,
    QUESTIONS,
    Grid,
    Question,
    Settings,
    grid,
    plan_grid,
    proximal_weight,
)
from tacit_power.balance.flow import Flow, Optimum, central, solve_privately
from tacit_power.cases.case import BUNDLED, Case, Elements, bundled_case, parse_case
from tacit_power.cases.reading import chosen_case, is_published, read_case
from tacit_power.day.asking import plan_day
from tacit_power.day.series import Series, read_series, read_weights
from tacit_power.day.smoothing import smoothed
from tacit_power.day.study import DayProposal, DayStudy, solve_day
from tacit_power.grids.layout import layout
from tacit_power.grids.network import Admittance, Network, admittance, network
from tacit_power.grids.relaxation import Relaxation, relax
from tacit_power.grids.zones import (
    Part,
    Zones,
    chosen_zones,
    grown_zones,
    parse_zones,
    parts,
    ties,
    zones_of,
)
from tacit_power.models.cost import Costs, costs, has_costs
from tacit_power.models.dc import restored, solve_dc, widest
from tacit_power.models.dc_network import DcModel, dc_model
from tacit_power.models.dispatch import MODELS, Dispatch, Model
from tacit_power.models.recourse import Realised, Tightening, realised, tightening
from tacit_power.models.soc import Exactness, SocOptimum, solve_soc
from tacit_power.moment.asking import HIDDEN, Hidden, plan_demand
from tacit_power.moment.opf import OpfProposal, OpfStudy, solve_opf, solved_at
from tacit_power.moment.price import Price, met, optimum, price_of_privacy

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
    "parse_case",
    "parse_zones",
    "parts",
    "plan_day",
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
