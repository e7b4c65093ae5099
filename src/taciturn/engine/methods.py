"""Methods on a problem, each in one call: a plan, and the curves of several for a study.

Defaults follow from public facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from taciturn import algorithms, checks
from taciturn.algorithms import Method, Setting, Value
from taciturn.datasets import Owners, RecordFacts
from taciturn.engine import planning
from taciturn.engine.charging import ChargedTo
from taciturn.engine.planning import Plan
from taciturn.engine.running import Run, records_for_door, run
from taciturn.engine.runtimes import sweep
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Observer, Relation, Terms
from taciturn.names import observer_named, relation_named
from taciturn.network import Network
from taciturn.problems import Problem, facts_from, minimise
from taciturn.typing import Array, Precision


@dataclass(frozen=True)
class MethodPlan(Plan):
    """A plan that is run on records by owner."""

    def run(
        self, owners: Owners, *, seed: int | None = None, account: ChargedTo | None = None
    ) -> Run:
        """Return the released model with its certificate; see `taciturn.engine.run`.

        With a `seed` the noise can be drawn again, and the certificate says "reproduction". The
        certificate states the conditions of the records.
        """
        shards = owners.shards(self.precision)
        keep = frozenset({"models"})
        done = run(self, shards, runtime="simulate", seed=seed, keep=keep, account=account)
        certificate = done.certificate.under(owners.conditions, conditional=False)
        return dataclasses.replace(done, certificate=certificate)


def plan(  # noqa: PLR0913 - what is run, on what terms, and how
    problem: Problem,
    facts: RecordFacts,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str | Callable[[Problem], Any] = "noisy-gradient",
    rounds: int | None = None,
    clip: float | None = None,
    relation: str | Relation = "replace_one",
    observer: str | Observer = "messages",
    network: Network = None,
    precision: Precision = "float32",
    agent_epsilons: Sequence[float] | None = None,
    **options: Value,
) -> MethodPlan:
    """Return the plan of a method that solves the problem within a total budget; no record is read.

    - `facts`: Public facts of the records, as of `Owners.facts`.
    - `epsilon`, `delta`: The budget of the whole run, for one record of one agent. `delta` may be
      left out only where epsilon is infinite.
    - `method`: A name of `taciturn.algorithms.METHODS`, or your class or function that makes an
      `Algorithm`, or a `Composition`, of a problem.
    - `rounds`: None for the method's default.
    - `clip`: The bound on a record's coefficient; None for `Method.clip_for`.
    - `relation`, `observer`: By name, or objects of `taciturn.kernel.privacy`. The defaults protect
      most: a record is replaced by any other, and every message is read.
    - `network`: As for `taciturn.engine.plan`; None for an aggregator.
    - `agent_epsilons`: The budget of each agent, the largest equal to `epsilon`; None if all have
      the same.
    - `options`: Those of the method, by name, as in `rho=0.1`.

    Raises as `taciturn.engine.plan`, and `InputError` for an unknown method or option.

    **Guarantee.** That of `taciturn.engine.plan`.
    """
    name, given = "a method of your own", dict(options)
    if isinstance(method, str):
        name, given = algorithms.published_method(method, options, epsilon)
        chosen = algorithms.method_named(name)
    else:
        chosen = Method.of(method)
    given = algorithms.check_options(name, chosen, given)
    terms = Terms(
        epsilon,
        checks.delta_for(epsilon, delta),
        Adjacency(relation_named(relation) if isinstance(relation, str) else relation, "record"),
        observer_named(observer) if isinstance(observer, str) else observer,
    )
    bound = chosen.clip_for(problem.loss, terms.epsilon) if clip is None else clip
    spec = facts_from(
        problem,
        facts.counts,
        features=facts.features,
        record_norm=facts.record_norm,
        clip=bound,
        dealt=facts.dealt,
    )
    setting = Setting(problem=problem, facts=spec, clip=bound, terms=terms, rounds=1, options={})
    if rounds is None:
        rounds = algorithms.rounds_by_default(chosen, setting, given)
    setting = dataclasses.replace(setting, rounds=rounds)
    settled = algorithms.settled(chosen, setting, given)
    setting = dataclasses.replace(setting, options=settled)
    algorithm, oracles = chosen.build(setting)
    result = planning.plan(
        spec,
        algorithm,
        oracles,
        terms,
        rounds=rounds,
        precision=precision,
        network=network,
        mechanism=setting.mechanism,
        agent_epsilons=agent_epsilons,
    )
    return MethodPlan(**vars(result))


def compare(  # noqa: PLR0913 - what is compared, on what terms, and how often
    problem: Problem,
    owners: Owners,
    methods: Sequence[str | Callable[[Problem], Any]] | Mapping[str, Mapping[str, Any]],
    *,
    epsilons: Sequence[float],
    delta: float | None = None,
    rounds: int,
    seeds: Sequence[int],
    precision: Precision = "float64",
    **settings: Any,
) -> pd.DataFrame:
    """Return the curves of methods at several budgets and seeds, for a study on known records.

    One row for each method, epsilon, seed and round, with `gap`, F(w_t) - F(w*) at the model that
    could be released after round t, and `test_error`, the mean of `Loss.error` over the test
    records, if there are any. w* is the optimum without privacy (`taciturn.problems.minimise`).

    - `methods`: Names or classes; or a mapping from the name of each curve to settings of `plan`,
      as in {"large rho": {"method": "dp-admm", "rho": 10.0}}.
    - `settings`: Passed to `plan` for all of them.
    - `seeds`: Of the noise. Every run is a reproduction.

    **Guarantee.** None: gaps and errors are computed from records without noise.
    """
    shards = owners.shards(precision)
    least = minimise(problem, shards).value
    rows, targets = jnp.asarray(owners.test_features), jnp.asarray(owners.test_targets)

    @jax.jit
    @jax.vmap
    @jax.vmap
    def measured(model: Array) -> tuple[Array, Array]:
        error = problem.loss.error(rows @ model, targets)
        return problem.objective(model, shards) - least, jnp.mean(error)

    if isinstance(methods, str):
        raise InputError(f"methods is {methods!r}; give several in a list, as in [{methods!r}]")
    if not isinstance(methods, Mapping):
        named = [one if isinstance(one, str) else getattr(one, "__name__", "") for one in methods]
        if "" in named or len(set(named)) < len(named):
            raise InputError(
                "two methods have one name, or one has none; give a mapping from the name of each "
                'curve to its settings, as in {"large rho": {"method": "dp-admm", "rho": 10.0}}'
            )
        methods = {name: {"method": one} for name, one in zip(named, methods, strict=True)}
    tables = []
    for name, chosen in methods.items():
        for epsilon in epsilons:
            planned = plan(
                problem,
                owners.facts,
                epsilon=epsilon,
                delta=delta,
                rounds=rounds,
                precision=precision,
                **{**settings, **chosen},
            )
            private = records_for_door(planned, shards)
            trace = sweep([planned.program], private, seeds=seeds, keep=frozenset({"models"}))[1]
            gaps, errors = map(np.asarray, measured(trace.models[0]))
            index = pd.MultiIndex.from_product(
                [[name], [epsilon], seeds, range(1, rounds + 1)],
                names=["method", "epsilon", "seed", "round"],
            )
            columns = {"gap": gaps.ravel()} | (
                {"test_error": errors.ravel()} if len(targets) else {}
            )
            tables.append(pd.DataFrame(columns, index=index))
    return pd.concat(tables).reset_index()
