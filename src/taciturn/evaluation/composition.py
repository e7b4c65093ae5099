"""The certificate of a training and an evaluation on records that were held out of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from taciturn.errors import PrivacyError
from taciturn.privacy import Certificate


def of_disjoint_parts(
    training: Certificate,
    evaluation: Certificate,
    answering: Sequence[int],
    condition: str,
    *,
    dealt: bool = False,
) -> Certificate:
    r"""Return the certificate of two runs, each record being in the data of one of them only.

    Parameters
    ----------
    answering
        The agents of the second run, which asks held-out records, by their numbers in the first.
    condition
        What says which record is in which part.
    dealt
        Whether records were dealt to the agents at random: whoever has a record may be one who
        answers, so that the dearest agent's figures are every agent's.

    Raises
    ------
    PrivacyError
        If the two are about other neighbours, observers or deltas.

    Notes
    -----
    **Guarantee.** Both promise (epsilon, delta), and so do both together; the mu of both
    together is the larger of the two, and not the root of the sum of their squares.

    Let part(j) in {T, E} be where record j is, by a secret draw that sees no record. Its law does
    not depend on the order of the file, so neighbouring data sets can be compared draw by draw
    (`taciturn.problems.Draw`): they then have the same parts but for what record r says, and a
    bound that holds for every draw holds for the mixture. Write M(D_T) for the law of all that
    the first run lets an observer see, and N_m(D_E) for that of the second, which may depend on
    what was seen, m: the model is a function of it. The observer sees (m, n) with the law
    M(dm | D_T) N_m(dn | D_E).

    *r is in T.* Then D_E = D'_E. Given m, the law of n is the same on both data sets, so (m, n) is
    post-processing of m, and every bound for M holds.

    *r is in E.* Then D_T = D'_T, and m has the same law on both. For an event S with the sections
    S_m,

        P(S | D) = E_m N_m(S_m | D_E) <= E_m [e^eps N_m(S_m | D'_E) + delta]
                 = e^eps P(S | D') + delta,

    where every N_m is (eps, delta)-private: the certificate of the second run holds at every query.
    The same holds for the trade-off function of a test, and so for mu: given m, which carries
    nothing about r, the test is one of N_m, and a mean of errors over m at a level a in the mean
    is no better than G_mu(a), which is convex.

    *Persons.* The same with r a person at one agent: all rows of a person are in one part
    (`taciturn.problems.hold_out`). A person at several agents is refused, since each of them
    divides its own.

    Adaptive choice of the second run's question is therefore harmless, as long as the first
    reads no record of E: not for its centre, nor for any of several candidates.
    """
    same = ("delta", "relation", "unit", "record", "rows_per_person", "agents_per_person")
    if training.agents_per_person not in {None, 1}:
        raise PrivacyError("a person is at several agents, who divide their rows on their own")
    different = [name for name in same if getattr(training, name) != getattr(evaluation, name)]
    if different:
        raise PrivacyError(
            f"training and evaluation differ in their {different[0]}; plan both on the same terms"
        )
    if evaluation.observer not in {training.observer, "messages"}:
        raise PrivacyError("the evaluation was certified for a weaker observer; plan it again")
    epsilons = np.array(training.per_agent_epsilon)
    epsilons[list(answering)] = np.maximum(epsilons[list(answering)], evaluation.per_agent_epsilon)
    sizes = None
    if training.per_agent_mu is not None and evaluation.per_agent_mu is not None:
        sizes = np.array(training.per_agent_mu)
        sizes[list(answering)] = np.maximum(sizes[list(answering)], evaluation.per_agent_mu)
    if dealt:
        epsilons[:] = np.max(epsilons)
        sizes = None if sizes is None else np.full_like(sizes, np.max(sizes))
    return dataclasses.replace(
        training,
        epsilon=max(training.epsilon, evaluation.epsilon),
        mu=None if sizes is None else float(np.max(sizes)),
        per_agent_epsilon=tuple(epsilons.tolist()),
        per_agent_mu=None if sizes is None else tuple(sizes.tolist()),
        reproduction=training.reproduction or evaluation.reproduction,
        attacker_tpr=max(training.attacker_tpr, evaluation.attacker_tpr),
        conditions=(*training.conditions, condition),
        conditional=training.conditional or evaluation.conditional,
        arithmetic=_of_both(training.arithmetic, evaluation.arithmetic),
    )


def _of_both(training: str, evaluation: str) -> str:
    if training == evaluation or not evaluation:
        return training
    return f"{training}; of the evaluation, it {evaluation}"
