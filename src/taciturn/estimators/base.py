"""The base of the private estimators: settings, a private fit, scores in the user's units."""

from __future__ import annotations

import abc
import dataclasses
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Num
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taciturn import checks
from taciturn.algorithms import COUNTS, METHODS, Algorithm, register
from taciturn.budget import Account
from taciturn.engine import check_chargeable
from taciturn.errors import (
    AccountError,
    InputError,
    PrivacyWarning,
    PublicFactsWarning,
    UtilityWarning,
)
from taciturn.estimators import validation
from taciturn.estimators.ranges import BoundsLike, Ranges, missing_in, ranges_for, ranges_seen
from taciturn.estimators.records import (
    AS_THEY_ARE,
    Encoding,
    Fit,
    Targets,
    account_of,
    names_of,
    owners_condition,
    owners_of,
    persons_of,
    shape_of,
)
from taciturn.estimators.validation import RowsLike, column_names
from taciturn.features import COLUMNS, usage
from taciturn.kernel.questions import name_of_class
from taciturn.problems import Loss, Named
from taciturn.training import (
    Division,
    Request,
    Structure,
    Training,
    default_of,
    delta_warning,
    known_forecast,
    propose,
    risk_warning,
    train,
)
from taciturn.typing import HostArray


class Fact(NamedTuple):
    """A fact taken as public, the setting that states it, and whether the caller set it."""

    what: str
    setting: str
    public: bool

    def condition(self, rows_per_person: int | None) -> str:
        """Return the condition that it is public, or does not depend on any one record."""
        if self.public:
            return f"{self.what} are public, as the caller declares ({self.setting}=)"
        one = "record says" if rows_per_person is None else "person's rows say"
        return (
            f"{self.what} were read off the records themselves ({self.setting}=None): the "
            f"certificate holds only if they would be the same whatever one {one}"
        )


def _fit_warnings(
    facts: Iterable[Fact], delta: float, units: int, what: str
) -> Iterator[tuple[type[Warning], str]]:
    """Yield the warnings about facts that were read off the records, and about delta."""
    for fact in facts:
        if not fact.public:
            yield (
                PublicFactsWarning,
                f"the certificate is conditional: {fact.what} were read off the records; pass "
                f"{fact.setting}= with what was public before the records were seen",
            )
    for text in delta_warning(delta, units, what):
        yield PrivacyWarning, text


def _named(loss: str | type[Loss]) -> Named:
    if isinstance(loss, str):
        return Named.parse("loss", loss)
    return Named(name=name_of_class(register(loss)), numbers=())


# not typing.Self: the run-time type checker sees the function without its class
EstimatorT = TypeVar("EstimatorT", bound="PrivateLinearModel")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearModel(BaseEstimator, abc.ABC):  # type: ignore[misc]
    r"""A linear model fitted under differential privacy; the base of the estimators.

    With A agents, m_i records of agent i and a loss l,

    .. math:: \min_w \frac1A \sum_i \frac1{m_i} \sum_j l(w'u_{ij}, t_{ij}) + \frac{l2}2 |w|^2,

    where u holds the features, clipped to their bounds [a, b] and mapped to [-1, 1], the indicators
    of missing cells and the constant 1, and t is the encoded target. The regulariser acts on all of
    w, including the intercept. `fit` checks the settings.

    Parameters
    ----------
    epsilon, delta
        The total budget of one fit; both are required. `epsilon=float("inf")` fits without noise.
    bounds
        The *public* ranges of the features: a pair (min, max), each one number for all columns or
        one per column; or, for data frames, a mapping that names every column, as in {"age": (0,
        120), "sex": (0, 1)}. None reads them off the records, with a `PublicFactsWarning` and a
        condition in the certificate.
    missing
        Which columns may have missing cells (NaN): None for none; "indicator" or "fill" for all; or
        a *public* mapping of names or numbers to these words, as in {"age": "fill"}. A missing cell
        counts as the middle of its bounds; an indicator column says that it is missing, at one more
        weight and no more noise per answer.
    features
        A public feature map (`taciturn.features`) of encoded rows by name, such as "bins:10", or
        "columns" for none. By default a classifier has "hats:10" where they are likely to pay.
    relation, observer
        The neighbouring relation, "replace_one", or "zero_out", which needs less noise; and what an
        attacker sees: "messages", every message of every agent, or "sum", only their sum, which
        assumes secure aggregation.
    rows_per_person, agents_per_person
        To protect persons (see `fit`) instead of single rows: the most rows of a person that count,
        and the most agents that hold rows of one. Public.
    algorithm, rounds, options
        The method, by its name in `taciturn.algorithms.METHODS` or a class of your own; its number
        of rounds, by default that of `taciturn train`; and its further options by name.
    loss
        A loss that replaces the default: a name in `taciturn.problems.LOSSES` with its numbers,
        as in "hinge:0.5", or a class of your own.
    sampling_rate, batches, rho, local_updates
        Options of the algorithms that have them; None for the default. Batches are "poisson", or
        "fixed": of one size, without replacement, under replace_one only, with two to three times
        the noise.
    evaluate
        The share of each agent's rows, such as 0.1, held out to score the model (`private_score_`).
        It costs those rows and no further budget.
    l2, clip
        Weight of the regulariser; and public bound on the norm of a record's coefficient dl/dz. By
        default its largest value at the start, 1/4 for residuals, or no bound if epsilon is
        infinite (`taciturn.algorithms.Method.clip_for`). A bound below `Loss.lipschitz` makes the
        loss robust (`taciturn.problems.ClippedLoss`).
    random_state, split_seed
        None draws noise, the owners of dealt rows and held-out rows in secret, from the operating
        system. A whole number, with the public `split_seed`, makes the fit repeatable, and the
        certificate states "reproduction, not private".
    account
        The account to which every fit is charged: its name, or a `taciturn.budget.Account`. It
        requires bounds, labels or the range of the target, and no `random_state`. The charge
        precedes the reading of any cell, and stays.

    Attributes
    ----------
    coef_, intercept_
        In the units of the features (and of a regression's target), in scikit-learn's shapes. With
        `features` per feature of `feature_map_` (else None), without the constant.
    missing_coef_
        In the shape of `coef_`: what a missing cell adds to the score, in addition to `coef_` times
        the middle of the bounds; 0 without an indicator, and with `features`.
    indicators_, filled_
        The numbers of the columns whose cells may be missing, with an indicator and without.
    bounds_
        The pair (a, b) of arrays (k,) to which features are clipped. If read off the records, it
        discloses them without noise.
    loss_
        The `taciturn.problems.ClippedLoss` that was minimised.
    certificate_, plan_
        The `taciturn.kernel.privacy.Certificate` of this fit, with its conditions and `evaluate`;
        and its `taciturn.engine.Plan`, without `evaluate`.
    private_score_, charged_
        The `taciturn.training.evaluation.PrivateScore` on the rows that `evaluate` holds out, and
        the `taciturn.engine.Charged` of this fit, with the account before and after; or None.

    Notes
    -----
    **Guarantee.** The fitted model is (epsilon, delta)-differentially private, as `certificate_`
    says: `Ranges.encoded` makes rows of norm at most sqrt(k + 1) out of one record each, `pack`
    enforces that norm, and the rest is `taciturn.plan` and `taciturn.run`. Coefficients are
    post-processing. It assumes that bounds, labels, counts and owners of rows are public, and that
    X and y are as collected. It does not cover other steps that compute something from the records,
    such as `StandardScaler` or `BaggingClassifier`; see `check_pipeline`.

    **Every fit spends its own budget.** Refitting, cross-validation and grid search on the same
    records compose: n fits of mu each cost sqrt(n) mu in all, and n fits of (epsilon, delta) at
    most n times both. Scores on private records are not covered at all. There are no weights of
    records, since they would change the sensitivity; for public weights of classes see
    `PrivateClassifier`.
    """

    # the public facts about the target, in words, and the setting that states them
    _target_facts: ClassVar[tuple[str, str]]

    epsilon: float | None = None
    delta: float | None = None
    bounds: BoundsLike | None = None
    missing: str | Mapping[str | int, str] | None = None
    features: str | None = None
    relation: str = default_of("relation")
    observer: str = default_of("observer")
    rows_per_person: int | None = None
    agents_per_person: int = 1
    algorithm: str | type[Algorithm] = default_of("algorithm")
    rounds: int | None = None
    loss: str | type[Loss] | None = None
    sampling_rate: float | None = None
    batches: str | None = None
    rho: float | None = None
    local_updates: int | None = None
    options: Mapping[str, Any] | None = None
    evaluate: float | None = None
    l2: float = 1e-6
    clip: float | None = None
    split_seed: int = default_of("split_seed")
    random_state: int | None = None
    account: Account | str | None = None

    def fit(
        self: EstimatorT,
        X: RowsLike,
        y: ArrayLike,
        agents: ArrayLike | None = None,
        persons: ArrayLike | None = None,
    ) -> EstimatorT:
        """Fit the model to private records, spending the budget once.

        Parameters
        ----------
        X, y
            (N, k) features and (N,) targets. A cell that a sparse matrix does not store is 0, not
            missing, so bounds must contain 0; at most 10^8 cells.
        agents
            The owner of each row: None for one agent that holds all, a number of agents to which
            rows are dealt at random, or one label per row. Labels are public and outside the
            certificate: labels that depend on the target, or on a feature, disclose it for every
            row.
        persons
            With `rows_per_person`: one private label per row, which identifies the person. Labels
            that read as one number are one person, others are compared as text. If rows are dealt,
            all rows of a person go to one agent.

        `InputError` if epsilon or delta is not set, a setting is out of range, or the data do not
        suit it; `AccountError`, which states how many fits were charged, if the account cannot
        cover this one. Warnings:

        - `PublicFactsWarning`: bounds, labels or the range of the target are read off the records;
        - `PrivacyWarning`: delta is above 1 / (10 N), or a column has mean 0 and variance 1 to nine
          digits, as behind a `StandardScaler` (a function of the records without noise, for their
          holder);
        - `UtilityWarning`: the evaluation fails, or the excess risk expected from public facts
          alone exceeds that of the model 0 (see `taciturn plan`).
        """
        if self.epsilon is None or self.delta is None:
            raise InputError(
                "epsilon and delta are not both set; a privacy budget has no default, so pass "
                'both, for example epsilon=1.0, delta=1e-6 (epsilon=float("inf") for no privacy)'
            )
        checks.positive("epsilon", self.epsilon, allow_infinity=True)
        delta = checks.delta(self.delta)
        seed = self.random_state
        seed = None if seed is None else checks.at_least("random_state", seed, 0)
        account = account_of(self.account, seed)
        read = None
        if account is None:
            read = self._read(X, y)
            shape, names = read[0].shape, column_names(self)
        else:  # charge before the first cell is read
            shape, names = shape_of(X), names_of(X)
            validation.check_size(X, y)
        facts, fit = self._planned(X, y, shape, names, agents, persons, read)
        data, request = fit.counted(self._division(agents)), self._request(fit.targets)
        structure = self._structure(shape[1], fit.facts.columns)
        proposal = propose(data.facts, data.all_counts, request, structure, dealt=data.dealt)
        try:
            training = train(data, proposal, seed=seed, account=account, trace=False)
        except AccountError as error:
            assert account is not None
            runs = account.state().charged
            here = sum(run.process == os.getpid() for run in runs)
            raise AccountError(
                f"{error}; {here} fits of this process were charged to it before, of {len(runs)} "
                "runs in all"
            ) from None
        self._keep(training, fit)
        people, unit = proposal.budget.rows_per_person, proposal.budget.unit
        forecast = known_forecast(proposal, training.plan)
        messages: list[tuple[type[Warning], str]] = [
            *_fit_warnings(facts, delta, proposal.records // (people or 1), f"{unit}s"),
            *validation.scaling_warnings(fit.cells()[0], column_names(self)),
            # targets are encoded in [-1, 1], whichever range they have
            *((UtilityWarning, text) for text in risk_warning(proposal, forecast, scaled=True)),
            *((UtilityWarning, text) for text in training.failures),
        ]
        for category, text in messages:  # last: a filter may raise them, and the fit is charged
            warnings.warn(text, category, stacklevel=2)
        return self

    def _read(self, X: RowsLike, y: ArrayLike) -> tuple[Float[HostArray, "N k"], HostArray]:
        """Return every cell as a number, and the targets, checked by scikit-learn."""
        missing = self.missing is not None
        rows, answers = validation.validated(self, X, y=y, accept_sparse="csr", missing=missing)
        validation.check_size(rows, answers)
        return validation.dense(rows), answers

    def _planned(  # noqa: PLR0913, PLR0917 - what is public, then the records
        self,
        X: Any,
        y: Any,
        shape: tuple[int, int],
        names: tuple[str, ...] | None,
        agents: ArrayLike | None,
        persons: ArrayLike | None,
        read: tuple[Float[HostArray, "N k"], HostArray] | None,
    ) -> tuple[tuple[Fact, ...], Fit]:
        """Return the facts taken as public, and what the fit does with its records.

        **Guarantee.** If nothing was read, both are functions of public facts and the owners of
        rows; only the type of X is inspected. `InputError` if bounds, labels or the range of the
        target are then not given, or a setting does not suit.
        """
        rows, answers = read or (None, None)
        marked, filled = missing_in(self.missing, shape[1], names)
        facts = self._facts(marked)
        if rows is None:
            check_chargeable(seed=None, conditional=not all(fact.public for fact in facts))
        if self.bounds is None:
            assert rows is not None
            ranges = ranges_seen(rows)
        else:
            ranges = ranges_for(self.bounds, shape[1], names=names)
            if validation.leaves_out_zeros(X):
                ranges.check_zero(names)
        ranges = dataclasses.replace(ranges, indicators=marked, filled=filled)
        if rows is not None:
            ranges.check_filled(rows, names)
        dealt_to, owners = owners_of(agents, shape[0])
        most = self.rows_per_person
        fit = Fit(
            shape=shape,
            names=names,
            ranges=ranges,
            targets=self._targets(answers),
            known=owners,
            numbers=persons_of(persons, shape[0], most),
            conditions=(
                *(fact.condition(most) for fact in facts),
                owners_condition(most, dealt=owners is None and dealt_to != 1),
                AS_THEY_ARE,
            ),
            read_off=not all(fact.public for fact in facts),
            cells=cache(lambda: read or self._read(X, y)),
            encode=self._encode,
        )
        return facts, fit

    def _division(self, agents: Any) -> Division:
        """Return how rows are divided: by their owners, or among a number of agents."""
        most = self.rows_per_person
        if most is not None:
            checks.at_least("rows_per_person", most, 1)
        number = 1 if agents is None else agents
        return Division(
            agents=int(number) if np.ndim(number) == 0 else None,
            split_seed=self.split_seed,
            rows_per_person=most,
            agents_per_person=self.agents_per_person,
            evaluate=self.evaluate,
        )

    @abc.abstractmethod
    def _targets(self, answers: HostArray | None) -> Targets:
        """Return how targets are encoded; `answers` are needed if that is not declared."""

    @abc.abstractmethod
    def _encode(self, answers: HostArray, targets: Targets) -> Num[HostArray, "N"]:
        """Return -1 and 1, class numbers, or numbers in [-1, 1]."""

    def _scores(self, X: RowsLike) -> Float[HostArray, "N *K"]:
        """Return x'coef + intercept, with features clipped and filled as in `fit`."""
        check_is_fitted(self, "coef_")
        missing = bool(self.indicators_ or self.filled_)
        rows = validation.validated(self, X, missing=missing, reset=False, accept_sparse="csr")
        ranges = Ranges(*self.bounds_, self.indicators_, self.filled_)
        encoding = Encoding(ranges, self.feature_map_)
        slopes, jumps = np.transpose(self.coef_), np.transpose(self.missing_coef_)
        found = []
        for part in validation.pieces(rows):
            ranges.check_filled(part, column_names(self))
            found.append(encoding.scores(part, slopes, jumps, np.asarray(self.intercept_)))
        return np.concatenate(found)

    def _request(self, targets: Targets) -> Request:
        same = (
            "epsilon", "delta", "observer", "relation", "rows_per_person", "agents_per_person",
            "clip", "rounds", "evaluate", "split_seed", "features",
        )  # fmt: skip
        if not isinstance(self.features, str | None):
            raise InputError(f"features is {self.features!r}; write {usage()}, or {COLUMNS!r}")
        method = self.algorithm
        if method == COUNTS:
            raise InputError(f"the method {COUNTS} releases no model; choose another algorithm")
        return Request(
            **{name: getattr(self, name) for name in same},
            algorithm=method if isinstance(method, str) else name_of_class(register(method)),
            loss=targets.loss if self.loss is None else _named(self.loss),
            regulariser=Named(name="l2", numbers=(checks.not_negative("l2", self.l2),)),
            options={k: v for k, v in self._options().items() if v is not None},
            class_weight=self._class_weight(targets),
            precision="float64",
        )

    def _class_weight(self, targets: Targets) -> Mapping[str, float] | None:
        """Return the class weights by the labels of `Targets.facts`; None by default."""
        del targets
        return None

    def _options(self) -> dict[str, Any]:
        """Return `options`, and the settings that name an option in `METHODS`; None if not given.

        Raises `InputError` if an option is given both ways.
        """
        known = {one.name for method in METHODS.values() for one in method.options}
        settings = known & {field.name for field in dataclasses.fields(PrivateLinearModel)}
        given = dict(self.options or {})
        twice = sorted(name for name in settings & set(given) if getattr(self, name) is not None)
        if twice:
            raise InputError(f"{twice[0]} is given twice, by itself and in options; give it once")
        return {name: getattr(self, name) for name in sorted(settings)} | given

    def _structure(self, columns: int, encoded: int) -> Structure | None:
        """Return the structure of the weights of that many columns of X; None by default."""
        del columns, encoded
        return None

    def _facts(self, indicators: Sequence[int]) -> tuple[Fact, ...]:
        """Return the facts taken as public."""
        settings = (("feature bounds", "bounds"), self._target_facts)
        facts = tuple(Fact(what, name, getattr(self, name) is not None) for what, name in settings)
        if not indicators or isinstance(self.missing, str):
            return facts
        return (*facts, Fact("the columns that may have missing cells", "missing", True))

    def _keep(self, training: Training, fit: Fit) -> None:
        """Store the fit, with coefficients per unit of the user's columns, or per feature."""
        encoding, targets = fit.encoding(training.proposal.data.features), fit.targets
        weights = targets.scale * training.model.reshape(len(training.model), -1)
        slopes, missing, intercepts = encoding.in_units(weights)
        intercepts, ranges = intercepts + targets.offset, encoding.ranges
        if targets.labels is None:
            self.coef_ = slopes[:, 0]
            self.intercept_: float | HostArray = float(intercepts[0])
            self.missing_coef_ = missing[:, 0]
        else:
            self.coef_, self.intercept_ = slopes.T, intercepts
            self.missing_coef_ = missing.T
            self.classes_ = targets.labels
        self.indicators_, self.filled_ = ranges.indicators, ranges.filled
        self.feature_map_ = encoding.features
        self.bounds_ = (ranges.minimum, ranges.maximum)
        self.charged_, self.plan_ = training.charged, training.plan
        self.loss_ = training.proposal.clipped_loss
        self.private_score_, self.certificate_ = training.private_score, training.certificate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, tags.input_tags.sparse = self.missing is not None, True
        return tags
