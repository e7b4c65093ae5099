"""tacit: differentially private distributed convex optimisation.

Importing the package switches JAX to 64-bit types, so that a plan may choose float64;
a plan in float32 stays in float32.
"""

import jax

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

__version__ = "0.1.0"
