"""The loss that a training minimises once the coefficient of a record is clipped."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from tacit.problems.losses import Loss


class ClippedLoss(NamedTuple):
    r"""A loss whose coefficient is clipped at C: the loss that a training in fact minimises.

    **Derivation.** Of a scalar margin, clipping dl/dz at C is differentiating

    .. math:: l_C(z, y) = l(0, y) + \int_0^z \max(-C, \min(C, l'(s, y))) \, ds,

    another convex loss, linear where |l'| > C. For C >= `Loss.lipschitz` nothing is clipped and
    l_C is l. For the logistic loss and C = 1/2, l_C is the logistic loss of a record that is on the
    right side and a line for one on the wrong side: its minimiser is another, in a population of
    any size, and sigma(z) is not the probability of a class. Clipped coefficients of several
    margins need not be the gradient of any function.

    Attributes
    ----------
    name
        Of the loss, with its numbers.
    loss
        The loss, with class weights if there are any.
    clip
        C; None where it is not known.

    Examples
    --------
    >>> from tacit.problems import Logistic
    >>> str(ClippedLoss("logistic", Logistic(), 0.5)), str(ClippedLoss("logistic", Logistic(), 1))
    ('robust logistic, clip 0.5', 'logistic')
    """

    name: str
    loss: Loss
    clip: float | None

    @property
    def robust(self) -> bool:
        """Whether the clip is below a finite Lipschitz constant, so that the loss is another."""
        return self.clip is not None and self.clip < self.loss.lipschitz < math.inf

    @property
    def log_odds(self) -> bool:
        """Whether scores are log-odds of the classes; False where the clip is not known."""
        return self.loss.log_odds and self.clip is not None and not self.robust

    def __str__(self) -> str:
        if self.clip is None and self.loss.log_odds:
            return f"{self.name}, clip unknown"
        return f"robust {self.name}, clip {self.clip:g}" if self.robust else self.name

    def without_probabilities(self, form: Literal["--clip ", "clip="]) -> str:
        """Return why there are no probabilities, and what gives some, as one line.

        Parameters
        ----------
        form
            How the clip is given: as an option of the command line, or as a parameter.
        """
        if not self.loss.log_odds:
            return (
                f"a model with the loss {str(self)!r} has no probabilities; train a classifier "
                "with the logistic or multinomial loss"
            )
        needed = math.ceil(100 * self.loss.lipschitz) / 100
        return (
            f"a model with the loss {str(self)!r} has no probabilities, since its scores are not "
            f"known to be log-odds; train with {form}{needed:g}, which takes more noise"
        )
