"""Conic sets and programs: their cones, projections, least-cost points, and the solver."""

from taciturn_power.conic.cones import Cone
from taciturn_power.conic.program import Minimum, minimise_conic
from taciturn_power.conic.sets import AgentSets, ConicSet, polyhedron

__all__ = ["AgentSets", "Cone", "ConicSet", "Minimum", "minimise_conic", "polyhedron"]
