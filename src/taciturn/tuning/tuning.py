"""A choice among trainings from end to end: all candidates trained, one picked, one certificate."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.budget import Account, Reservation
from taciturn.datasets import Dataset
from taciturn.engine import Charged, check_chargeable, returned_on_error
from taciturn.errors import InputError, TaciturnError, reason, told_anew
from taciturn.evaluation import tally_axes
from taciturn.features import AroundCentre
from taciturn.noise import Label, Stream, exponential_choice
from taciturn.oracles import ClippedErrors, Point, Tally
from taciturn.privacy import Certificate
from taciturn.problems import Draw, Shard, Shards
from taciturn.problems.shards import for_exact_sums
from taciturn.proposal import evaluation_question
from taciturn.tables import Table
from taciturn.training import DividedData, Division, Training, divide_records, train
from taciturn.tuning.planning import Price, TunePlan, plan_choice
from taciturn.tuning.proposal import TuneProposal
from taciturn.typing import Array, HostArray


@dataclass(frozen=True, eq=False)
class Tuned:
    """A choice among trainings.

    Attributes
    ----------
    training
        Of the candidate that was picked; its certificate is that of everything together.
    picked
        The number of that candidate.
    picks
        The candidate that each agent with held-out records picked.
    price
        What picking cost, if that was computed.
    """

    proposal: TuneProposal
    plan: TunePlan
    training: Training
    picked: int
    picks: tuple[int, ...]
    price: Price | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of all trainings and the choice."""
        return self.training.certificate

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the candidates."""
        return tuple(candidate.name for candidate in self.proposal.candidates)

    def to_dict(self) -> dict[str, Any]:
        """Return what was chosen among what, as JSON-safe values."""
        return {
            "candidates": self.names,
            "picked": self.names[self.picked],
            "picks": self.picks,
            "held_out": self.proposal.units_held_out,
            "proposal": self.proposal.model_dump(mode="json"),
            "digest": self.proposal.digest,
            "price": None if self.price is None else dataclasses.asdict(self.price),
        }


def tune(  # noqa: PLR0913 - what is chosen from, on what, and who pays
    dataset: Dataset | Table,
    proposal: TuneProposal,
    *,
    agents: int | None = None,
    seed: int | None = None,
    account: Account | Reservation | None = None,
    price: Price | None = None,
    report: Callable[[int], None] | None = None,
    release: Callable[[int, Training], None] | None = None,
) -> Tuned:
    """Return the training of the candidate that held-out records pick, and what all of it cost.

    Parameters
    ----------
    seed
        Of all noise; None for the operating system's entropy. With one it is a reproduction.
    account
        Charged once for everything, before a record is read; or a reservation for it.
    price
        Kept with the result.
    report
        Called with the number of trainings that are finished.
    release
        Called with the number of each candidate, from 0, and its training as soon as its run has
        ended, under the certificate of everything.

    Raises
    ------
    TaciturnError
        If no candidate can be picked, although all are trained, charged and released.

    Notes
    -----
    **Guarantee.** That of `plan_choice`: all candidates are trained on the rows that are kept, the
    rows that are held out are read once, for the choice, and what is released is a function of the
    trainings' messages and the picks.
    """
    plan = plan_choice(proposal)
    if isinstance(account, Account):
        account = account.for_table(dataset.columns)
    reservation = reserved_for(account, plan, seed)
    try:
        data = divided(dataset, proposal, agents, _draw(seed, proposal))
        trainings: list[Training] = []
        for number, candidate in enumerate(proposal.candidates):
            records = data[candidate.proposal.data.features]
            kept = None
            if release is not None:
                kept = partial(_released, release, number, tuple(trainings), plan)
            trainings.append(
                train(
                    records,
                    candidate.proposal,
                    reference=False,
                    seed=_seed(seed, number),
                    release=kept,
                )
            )
            if report is not None:
                report(number + 1)
        picks, best = told_anew(
            lambda: _picked(proposal, trainings, data, plan.rate, seed), Exception, _not_picked
        )
        charged = _closed(reservation)
    finally:
        if reservation is not None:  # nothing, where it is closed
            reservation.close(released=False)
    training = _certified(trainings, best, plan, charged)
    return Tuned(proposal, plan, training, best, picks, price)


def reserved_for(
    account: Account | Reservation | None, plan: TunePlan, seed: int | None
) -> Reservation | None:
    """Return an open reservation for a whole choice, before a record is read; None without one."""
    if account is None:
        return None
    check_chargeable(seed=seed, conditional=False)
    if isinstance(account, Reservation):
        account.use(plan.charge)
        return account
    reservation = account.reserve(plan.charge, plan.purpose)
    with returned_on_error(reservation):
        reservation.use(plan.charge)
    return reservation


def divided(
    dataset: Dataset | Table, proposal: TuneProposal, agents: int | None, draw: Draw
) -> Mapping[str | None, DividedData]:
    """Return the records, divided by one draw, with the features of each candidate."""
    first = proposal.candidates[0].proposal
    division = Division.of_proposal(first, owned=dataset.owners is not None)
    if agents is not None:
        division = dataclasses.replace(division, agents=agents)
    names = dict.fromkeys(one.proposal.data.features for one in proposal.candidates)
    data = {
        name: divide_records(dataset, dataclasses.replace(division, features=name), draw)
        for name in names
    }
    for one in data.values():
        if one.counts != first.counts or one.held_out_counts != proposal.evaluation.counts:
            raise InputError(
                "the proposal is for other numbers of records, or shares them otherwise; propose "
                "again"
            )
    return data


def _released(
    release: Callable[[int, Training], None],
    number: int,
    earlier: tuple[Training, ...],
    plan: TunePlan,
    training: Training,
) -> None:
    """Hand over a candidate that was trained after others."""
    release(number, _certified((*earlier, training), len(earlier), plan, None))


def _picked(
    proposal: TuneProposal,
    trainings: Sequence[Training],
    data: Mapping[str | None, DividedData],
    rate: float,
    seed: int | None,
) -> tuple[tuple[int, ...], int]:
    """Return what each agent with held-out records picks, and what all of them pick."""
    rows = proposal.budget.rows_per_person
    costs = [
        errors_of(
            evaluation_question(candidate.proposal.data, rows),
            training.model,
            _asked(training, data[candidate.proposal.data.features]),
        )
        for candidate, training in zip(proposal.candidates, trainings, strict=True)
    ]
    picks = choose(costs, rate, stream_of(seed))
    units = [count for count in proposal.units_held_out if count]
    return picks, picked(picks, units, len(trainings))


def _not_picked(error: Exception) -> TaciturnError:
    return TaciturnError(
        f"no candidate was picked: {reason(error)}. All of them are trained and charged, and what "
        "each released stands"
    )


def _draw(seed: int | None, proposal: TuneProposal) -> Draw:
    """Return what deals records out and holds them out, once for all candidates."""
    return Draw.for_noise(seed, proposal.candidates[0].proposal.split_seed)


def _seed(seed: int | None, number: int) -> int | None:
    """Return a seed for each training: noise that is drawn twice is none."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _asked(training: Training, data: DividedData) -> Shards:
    """Return the rows that choose as the model takes them."""
    features = training.features
    if isinstance(features, AroundCentre):
        data = data.around(features.centre)
    return data.evaluated()


def _closed(reservation: Reservation | None) -> Charged | None:
    if reservation is None:
        return None
    after = reservation.close(released=True)
    return Charged(reservation.account, reservation.run, reservation.before, after)


def _certified(
    trainings: Sequence[Training], best: int, plan: TunePlan, charged: Charged | None
) -> Training:
    """Return the training that was picked with the certificate of everything.

    It holds under the conditions of all trainings: those that lost asked the same records. The plan
    stays that of the winner's proposal, by which anyone derives it again.
    """
    training = trainings[best]
    own = training.plan.certificate
    stated = dict.fromkeys(text for one in trainings for text in one.plan.certificate.conditions)
    certificate = dataclasses.replace(
        plan.certificate,
        conditions=tuple(dict.fromkeys((*stated, *plan.certificate.conditions))),
        reproduction=own.reproduction,
        attacker_tpr=1.0 if own.reproduction else plan.certificate.attacker_tpr,
        conditional=any(one.plan.certificate.conditional for one in trainings),
    )
    return dataclasses.replace(training, choice=certificate, charged=charged)


def errors_of(
    question: Tally | ClippedErrors, model: Float[HostArray, "D *K"], shards: Shards
) -> tuple[Fraction, ...]:
    """Return each agent's number of wrong labels, or sum of clipped absolute errors, exactly.

    Notes
    -----
    **Guarantee.** A sum with a term in [0, 1] for each record, or person, that depends on it alone
    (`taciturn.oracles.Tally`, `taciturn.oracles.ClippedErrors`).
    """
    query = Point(jnp.asarray(model, jnp.float64))
    stacked = for_exact_sums(shards)
    counts = jnp.asarray(shards.counts, jnp.float64)
    values = np.asarray(_answers(question, query, stacked, counts), np.float64)
    if isinstance(question, Tally):
        label, guess, _ = tally_axes(question)
        return tuple(sum(map(Fraction, row[label != guess]), Fraction(0)) for row in values)
    return tuple(Fraction(float(row[0])) for row in values)


@jax.jit
def _answers(question: Tally | ClippedErrors, query: Point, stacked: Shard, counts: Array) -> Array:
    """Return the answers of all agents without noise."""
    answers: Array = jax.vmap(lambda shard, count: question.exact(shard, count, query))(
        stacked, counts
    )
    return answers


def choose(costs: Sequence[Sequence[Fraction]], rate: float, stream: Stream) -> tuple[int, ...]:
    """Return every agent's pick by the exponential mechanism on its errors, by candidate.

    **Guarantee.** A record is in the errors of one agent. What that agent says is private by
    `taciturn.privacy.mu_of_choice`, whoever reads it; the others' picks do not depend on the
    record.
    """
    stream.claim()
    agents = len(costs[0])
    return tuple(
        exponential_choice(stream, Label(0, agent, 0), [of[agent] for of in costs], rate)
        for agent in range(agents)
    )


def picked(picks: Sequence[int], units: Sequence[int], candidates: int) -> int:
    """Return the candidate with the most picks, each weighed by how many records its agent asked.

    The weights are public; of several with as many the first wins.

    Examples
    --------
    >>> picked([1, 0, 1], [10, 10, 10], 3), picked([0, 1], [10, 30], 2), picked([1, 0], [5, 5], 2)
    (1, 1, 0)
    """
    votes = np.bincount(np.asarray(picks), np.asarray(units, np.float64), candidates)
    return int(np.argmax(votes))


def stream_of(seed: int | None) -> Stream:
    """Return fresh random numbers, or those of a reproduction."""
    if seed is None:
        return Stream.fresh()
    return Stream(hashlib.sha256(f"taciturn.tune {seed}".encode()).digest())
