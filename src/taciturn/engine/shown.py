"""How a finished run is shown: a few lines at a prompt, and its curves as a table."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import numpy as np
import pandas as pd

from taciturn.engine.charging import Charged
from taciturn.engine.planning import Plan
from taciturn.engine.protocol import Trace
from taciturn.privacy import Certificate
from taciturn.typing import HostArray


@runtime_checkable
class Finished(Protocol):
    """What is shown of a run."""

    @property
    def model(self) -> HostArray:
        """The released model."""
        ...

    @property
    def trace(self) -> Trace:
        """What was kept."""
        ...

    @property
    def certificate(self) -> Certificate:
        """The guarantee."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...

    @property
    def seconds(self) -> float:
        """Wall time."""
        ...

    @property
    def charged(self) -> Charged | None:
        """Where it was charged."""
        ...


class ShownRun:
    """The `repr` of a run in ten lines or fewer, and its curves by round."""

    def __repr__(self: Finished) -> str:
        plan, parts = self.plan, self.trace._asdict()
        kept = [name for name, part in parts.items() if name != "records" and part is not None]
        return "\n".join(
            [
                f"Run of {type(plan.program.algorithm).__name__}: {plan.rounds} rounds, "
                f"{plan.spec.agents} agents, {self.seconds:.3g} s",
                *promise_lines(self.certificate),
                model_line(self.model),
                f"  kept of every round: {', '.join(kept) or 'nothing'}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self: Finished) -> pd.DataFrame:
        """Return what changes from round to round, one row a round.

        The public schedules of the plan, as the step size; and, where models were kept, the norm of
        the model after each round (`model_norm`) and of its change (`model_change`).

        **Guarantee.** Post-processing of public facts and of models that could be released.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        columns = {
            name: np.asarray(values, np.float64)
            for name, values in self.plan.schedules.items()
            if np.shape(values) == (len(index),)
        }
        if self.trace.models is not None:
            models = np.asarray(jax.device_get(self.trace.models), np.float64)
            flat = models.reshape(len(index), -1)
            columns["model_norm"] = np.linalg.norm(flat, axis=1)
            columns["model_change"] = np.linalg.norm(np.diff(flat, axis=0, prepend=0), axis=1)
        return pd.DataFrame(columns, index=index)


def promise_lines(certificate: Certificate) -> list[str]:
    """Return what a certificate promises, indented: two lines at most."""
    return [f"  {line}" for line in certificate.lines()[: 1 + certificate.reproduction]]


def model_line(model: HostArray) -> str:
    """Return the shape and norm of a model as a line."""
    norm = float(np.linalg.norm(np.asarray(model, np.float64)))
    return f"  model: shape {model.shape}, {model.dtype}, norm {norm:.4g}"
