"""Network and costs as a problem: DC with margins for the noise, and the cone relaxation."""
