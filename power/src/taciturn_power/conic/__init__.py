"""Conic sets and programs: their cones, projections, least-cost points, and the solver."""

from taciturn_power.conic.sets import AgentSets, ConicSet, polyhedron
from taciturn_power.conic.solver import Cone, Minimum, minimise_conic

__all__ = ["AgentSets", "Cone", "ConicSet", "Minimum", "minimise_conic", "polyhedron"]
