"""Conic sets and programs: projections, minimisers, and the solver."""

from taciturn_power.conic.sets import AgentSets, ConicSet, polyhedron
from taciturn_power.conic.solver import Cone, Minimum, minimise_conic

__all__ = ["AgentSets", "Cone", "ConicSet", "Minimum", "minimise_conic", "polyhedron"]
