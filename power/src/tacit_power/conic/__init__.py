"""Conic sets and programs: their cones, projections, least-cost points, and the solver."""

from tacit_power.conic.cones import Cone
from tacit_power.conic.program import Minimum, minimise_conic
from tacit_power.conic.sets import AgentSets, ConicSet, polyhedron

__all__ = ["AgentSets", "Cone", "ConicSet", "Minimum", "minimise_conic", "polyhedron"]
