"""How a finished training is shown: a few lines at a prompt, and its curves as a table."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pandas as pd

from tacit.datasets import Dataset
from tacit.engine import Charged, Plan
from tacit.engine.shown import model_line, promise_lines
from tacit.privacy import Certificate
from tacit.proposal import Proposal
from tacit.tables import Table
from tacit.training.metrics import Metrics
from tacit.typing import HostArray


@runtime_checkable
class Finished(Protocol):
    """What is shown of a training."""

    @property
    def proposal(self) -> Proposal:
        """What was proposed."""
        ...

    @property
    def dataset(self) -> Dataset | Table:
        """What was trained on."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...

    @property
    def model(self) -> HostArray:
        """The released model."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Errors and losses."""
        ...

    @property
    def curves(self) -> dict[str, HostArray]:
        """Test metrics after every round."""
        ...

    @property
    def certificate(self) -> Certificate:
        """The guarantee."""
        ...

    @property
    def charged(self) -> Charged | None:
        """Where it was charged."""
        ...

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown."""
        ...


class ShownTraining:
    """The `repr` of a training in ten lines or fewer, and its curves by round."""

    def __repr__(self: Finished) -> str:
        proposal, error = self.proposal, "not shown"
        if self.shows_test:
            error = f"{self.metrics.test_error:.4g}"
        return "\n".join(
            [
                f"Training on {self.dataset.title}: {proposal.units_text}, "
                f"{len(proposal.counts)} agents",
                f"  {proposal.method.name}, {proposal.rounds} rounds; loss {proposal.clipped_loss}",
                *promise_lines(self.certificate),
                model_line(self.model),
                f"  test error: {error}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self: Finished) -> pd.DataFrame:
        """Return test error and test loss after every round, one row a round.

        Without columns where the test records are not public, or there are none.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        return pd.DataFrame(self.curves if self.shows_test else {}, index=index)
