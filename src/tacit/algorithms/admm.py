"""ADMM with exact local steps: without noise, or with primal or dual variable perturbation."""

from __future__ import annotations

import math

from typing_extensions import override

from tacit.algorithms.algorithm import Noise, Turn
from tacit.algorithms.consensus_admm import ConsensusADMM, DualState
from tacit.oracles import Centre
from tacit.spec import Spec
from tacit.typing import HostArray, Model


def steady_rho(facts: Spec, rounds: int, noise: Noise) -> float:
    """Return a public rho under which noise on exact steps moves a margin by about one unit.

    Averaged over the agents, a round moves the public value by 1 / rho times the mean gradient at
    the new iterates and adds noise of standard deviation nu / rho per coordinate, nu that of the
    mean answer in gradient units: T rounds have the horizon H = T / rho of `NoisyGradient`, and
    collect H nu / sqrt(T). Its rule H = radius sqrt(T / d) / nu, radius = sqrt(d) / R, gives

        rho = sqrt(T) nu R.

    At least 0.4 L is returned: the paper's 0.1 for the logistic loss and unit records.
    """
    margin = math.sqrt(rounds) * noise.of_mean * facts.record_norm
    return max(0.4 * facts.smoothness, margin)


class ADMM(ConsensusADMM):
    r"""Consensus ADMM whose agents ask for the minimiser of their augmented Lagrangian.

    The agents' step (Huang et al. 2019, Algorithm 1, step 4) is a proximal step of f_i, with the
    regulariser if agents have it, at a public centre:

        w_i <- argmin f_i(w_i) + r(w_i) - gamma_i'(w_i - w) + (rho/2) |w_i - w|^2
             = the proximal step at w + gamma_i / rho.

    The oracle decides the method:

    - `tacit.oracles.ProximalStep` without noise: ADMM, Algorithm 1;
    - `ProximalStep` with noise on its answer: ADMM with primal variable perturbation (PVP),
      Algorithm 2, whose duals follow the noised iterates (step 9);
    - `tacit.oracles.PerturbedStep`, noise inside the objective: dual variable perturbation (DVP),
      Zhang and Zhu 2017.

    The oracle must have the same rho, and the regulariser if and only if `regulariser_at` is
    "agents": build both with `tacit.algorithms.at_agents`.

    **Guarantee.** State, message and public value are functions of noised answers and public
    constants alone, so a run is post-processing of the adaptive composition of its answers. The
    question depends on the agent's dual, hence no credit is taken for summation.
    """

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {}

    @override
    def ask(self, state: DualState, inbox: Model, turn: Turn) -> Centre:
        return Centre(inbox + state.dual / self.rho)

    @override
    def tell(self, state: DualState, inbox: Model, turn: Turn, answer: Model) -> DualState:
        return state._replace(iterate=answer)
