from .cases.case import BUNDLED, Case, Elements, bundled_case, parse_case
from .cases.reading import chosen_case, is_published, pandapower_case, read_case
from .dispatch.asking import HIDDEN, Hidden, plan_demand
from .dispatch.export import pandapower_results
from .dispatch.results import Price, met, optimum, price_of_privacy
from .dispatch.series import Series, read_series, read_weights, smoothed
from .dispatch.study import (
    DayProposal,
    OpfProposal,
    OpfStudy,
    solve_opf,
    solved_at,
)
from .grids.network import Admittance, Network, admittance, layout, network
from .grids.relaxation import Relaxation, relax
from .grids.zones import Part, Zones, chosen_zones, grown_zones, parse_zones, parts, ties, zones_of
from .models.cost import Costs, costs, has_costs
from .models.dc import restored, solve_dc, widest
from .models.dc_network import DcModel, Realised, Tightening, dc_model, realised, tightening
from .models.dispatch import MODELS, Dispatch, Model
from .models.soc import Exactness, SocOptimum, solve_soc
from .state.study import (
    DEFAULT_QUESTION,
    QUESTIONS,
    Flow,
    Grid,
    Optimum,
    Question,
    Settings,
    central,
    grid,
    plan_grid,
    proximal_weight,
    solve_privately,
)

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
