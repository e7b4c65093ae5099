"""A network and costs as a problem: DC with room for noise, and the cone relaxation."""
