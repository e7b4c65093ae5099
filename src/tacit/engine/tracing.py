"""Whether a program can be traced: what fails there is found by the plan, before a charge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine.door import Live, Private
from tacit.engine.program import Program
from tacit.engine.runtimes import simulate
from tacit.errors import InputError, TacitError
from tacit.problems import Shard
from tacit.spec import Spec


def check_traces(program: Program, spec: Spec) -> None:
    """Raise `InputError` unless a whole run of the program can be traced on records of its shape.

    Notes
    -----
    Traced is what both runtimes execute: all methods of the algorithm, the network's round, every
    question with its batch and noise, and the released model, from types and shapes alone. Nothing
    is compiled. Targets are tried as numbers and as labels, as records may have either.
    """
    first: Exception | None = None
    for kind in (program.template.dtype, jnp.dtype(np.int32)):
        try:
            jax.eval_shape(_run, program, _records(spec, program.template.dtype, kind))
        except TacitError:
            raise
        except Exception as error:
            first = first or error
        else:
            return
    name, said = type(program.algorithm).__name__, str(first).strip().split("\n", 1)[0]
    raise InputError(
        f"{name} cannot be run with these questions ({type(first).__name__}: {said}); nothing was "
        "charged. Mend the method, or ask the questions that it is for"
    ) from first


def _run(program: Program, private: Any) -> Any:
    door = Live(program.oracles, program.mechanism, jax.random.key(0))
    return simulate(program, door, private, keep=frozenset({"models"}))


def _records(spec: Spec, precision: Any, targets: Any) -> Private:
    """Return the types and shapes of all agents' records; nothing is allocated."""
    agents, rows = len(spec.counts), max(spec.counts)

    def zeros() -> Private:
        features = jnp.zeros((agents, rows, spec.shape[0]), precision)
        mask = jnp.zeros((agents, rows), precision)
        shard = Shard(features, jnp.zeros((agents, rows), targets), mask)
        return Private(shard, jnp.zeros(agents, precision))

    shapes: Private = jax.eval_shape(zeros)
    return shapes
