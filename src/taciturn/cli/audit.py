"""`taciturn audit`: attack an algorithm and say which layer saw what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import typer

from taciturn.algorithms import METHODS, Value, check_options, method_named, published_method
from taciturn.audit import (
    AuditReport,
    EpsilonBound,
    Fault,
    audit_perturbed,
    audit_sampled,
    fault_named,
)
from taciturn.audit import audit as attacked
from taciturn.cli.console import Json, emit, first_given, interruptible, one_of, table, takes
from taciturn.cli.options import factory_named, method_options
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency
from taciturn.names import relation_named
from taciturn.report import strict
from taciturn.training import check_seed

_RELATIONS = ("replace_one", "zero_out")
_BATCH_FAULT = "full-batch"
_PERSON = ("rows_per_person", "agents_per_person")
_AUDITED = {name: method for name, method in METHODS.items() if method.structure != "required"}
_SAMPLED = ", ".join(name for name, method in _AUDITED.items() if method.sampled)
_WITH_OPTIONS = {name: method for name, method in _AUDITED.items() if not method.inside}
_RATE = 0.2
_INSIDE = ", ".join(name for name, method in _AUDITED.items() if method.inside)


_OPTIONS: dict[str, tuple[Any, ...]] = {
    "fault": (
        str,
        f"Fault to plant: {', '.join(get_args(Fault))}; {_BATCH_FAULT} for {_SAMPLED}; "
        f"halved-noise for {_INSIDE}.",
    ),
    "mu": (float, "Budget of the plan, as mu. [default: 1.5]"),
    "epsilon": (
        float,
        f"Budget at delta 1e-5 for methods without a mu. [default: 2 for {_SAMPLED}; 4 for "
        f"{_INSIDE}]",
    ),
    "relation": (
        str,
        f"Neighbouring relation for {_SAMPLED}: replace_one or zero_out. [default: replace_one]",
    ),
    "rows_per_person": (int, "Attack a person with this many rows, not a record; with --mu."),
    "agents_per_person": (
        int,
        "With --rows-per-person: number of agents that hold rows of the person. [default: 1]",
    ),
    "runs": (int, "Runs on each data set. [default: 1000; 4000 for methods without a mu]"),
    "seed": (int, "Seed of noise and data. [default: from the operating system]"),
    "centre": (bool, "Audit a method on all records around a private centre."),
}


@takes({**_OPTIONS, **method_options(_WITH_OPTIONS, sampling_rate=_RATE)})
def audit(
    *,
    algorithm: Annotated[
        str, typer.Argument(help=f"{', '.join(_AUDITED)}; or your own method: module:Class.")
    ],
    json: Json = False,
    **given: Any,
) -> None:
    """Attack a method, as planned or with a planted fault, on data that saturate its bound.

    A method that queries all records is planned for a given mu and tested in four layers. A method
    on batches, or with noise inside an objective, has no mu: the attack then lower-bounds epsilon
    from outputs alone.
    """
    given["centre"] = given["centre"] or None
    given = {name: value for name, value in given.items() if value is not None}
    of_method = {name: value for name, value in given.items() if name not in _OPTIONS}
    algorithm, of_method = published_method(algorithm, of_method, given.get("epsilon", 1.0))
    options = _Options(
        algorithm=algorithm,
        given={**given, **of_method},
        of_method=of_method,
        fault=given.get("fault"),
        relation=given.get("relation", "replace_one"),
        rate=given.get("sampling_rate", _RATE),
    )
    report = interruptible(lambda: _run(options))
    if json:
        emit(strict(_values(report, options)))
    elif isinstance(report, AuditReport):
        typer.echo(_sentences(report))
    else:
        typer.echo(_bound_sentences(report, options))


@dataclass(frozen=True)
class _Options:
    """The algorithm, and the options that were given by name; of the algorithm, and by default."""

    algorithm: str
    given: dict[str, Any]
    of_method: dict[str, Value]
    fault: str | None
    relation: str
    rate: float

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise `InputError` if an option of these names was given."""
        option = first_given(self.given, names)
        if option:
            raise InputError(f"{option} is given with {self.algorithm}; {why}")

    def chosen(self, **usual: Any) -> dict[str, Any]:
        """Return the options of these names, as they are given or as usual."""
        return {name: self.given.get(name, value) for name, value in usual.items()}


def _run(options: _Options) -> AuditReport | EpsilonBound:
    if "seed" in options.given:
        check_seed("seed", options.given["seed"])
    if ":" in options.algorithm:
        options.refuse(options.of_method, "a method of your own has no options here")
        return _on_all_records(options)
    method = method_named(options.algorithm)
    check_options(options.algorithm, method, options.of_method)
    if method.structure == "required":
        raise InputError(
            f"{options.algorithm} needs a structure to be audited; use taciturn.audit.audit with a "
            "Composition in Python"
        )
    if method.inside:
        return _inside_objective(options)
    return _on_batches(options) if method.sampled else _on_all_records(options)


def _inside_objective(options: _Options) -> EpsilonBound:
    options.refuse(("centre",), "noise inside an objective has none")
    options.refuse(
        ("mu", "relation", *_PERSON),
        "noise inside an objective has a curve for one record under replace_one, so give --epsilon",
    )
    options.refuse(options.of_method, "this attack sets the options itself, so leave it out")
    if options.fault is not None:
        one_of("--fault", options.fault, ("halved-noise",))
    fault: Literal["halved-noise"] | None = None if options.fault is None else "halved-noise"
    return audit_perturbed(**options.chosen(epsilon=4.0, runs=4000, seed=None), fault=fault)


def _on_all_records(options: _Options) -> AuditReport:
    name = options.algorithm
    options.refuse(
        ("epsilon", "relation"),
        f"it answers on all records under replace_one, so give --mu, or audit {_SAMPLED}",
    )
    if options.fault == _BATCH_FAULT:
        raise InputError(f"the fault {_BATCH_FAULT} is for batches; plant it in {_SAMPLED}")
    return attacked(
        factory_named(name) if ":" in name else name,
        fault=None if options.fault is None else fault_named(options.fault),
        options=options.of_method,
        centre="centre" in options.given,
        **options.chosen(mu=1.5, runs=1000, seed=None, rows_per_person=None, agents_per_person=1),
    )


def _on_batches(options: _Options) -> EpsilonBound:
    options.refuse(("mu",), "answers on batches have none, so give --epsilon")
    options.refuse(_PERSON, "answers on batches are accounted for one record")
    options.refuse(("centre",), "rows around a centre are audited for answers on all records")
    if options.of_method.get("batches", "poisson") != "poisson":
        raise InputError("batches of a fixed size have no audit yet; leave --batches out")
    if options.fault is not None:
        one_of("--fault", options.fault, (_BATCH_FAULT,))
    return audit_sampled(
        Adjacency(relation_named(one_of("--relation", options.relation, _RELATIONS)), "record"),
        rate=options.rate,
        **options.chosen(epsilon=2.0, runs=4000, seed=None),
        fault=None if options.fault is None else "full-batch",
    )


def _values(report: AuditReport | EpsilonBound, options: _Options) -> dict[str, Any]:
    if isinstance(report, AuditReport):
        return report.to_dict()
    rate = {} if METHODS[options.algorithm].inside else {"sampling_rate": options.rate}
    head = {"algorithm": options.algorithm, "fault": options.fault, "relation": options.relation}
    return {**head, **rate, **report.to_dict()}


def _bound_sentences(bound: EpsilonBound, options: _Options) -> str:
    verdict = "consistent: the attack proved no more than the certificate allows"
    if not bound.consistent:
        verdict = "violated: the outputs tell more than was certified"
    setting = f"relation {options.relation}"
    if not METHODS[options.algorithm].inside:
        setting = f"sampling rate {options.rate:g}, {setting}"
    return (
        f"Audit of {options.algorithm}, {_planted(options.fault)}, {setting}, "
        f"{bound.runs} runs on each of two neighbouring data sets\n\n"
        f"claimed      epsilon {bound.claimed:.4g} at delta {bound.delta:g}\n"
        f"lower bound  epsilon {bound.epsilon:.4g} (confidence {bound.confidence:.0%}), from the "
        f"outputs alone\n\nVerdict: {verdict}"
    )


def _planted(fault: str | None) -> str:
    return "no fault planted" if fault is None else f"planted fault: {fault}"


def _sentences(report: AuditReport) -> str:
    violated = [layer for layer, seen in report.layers.items() if seen == "violated"]
    verdict = "consistent: no layer saw more than the certificate allows"
    if violated:
        verdict = f"violated, as seen by: {', '.join(violated)}"
    note, reachable = "", report.likelihood.reachable
    if reachable <= report.claimed_mu:
        note = (
            f"Note: {report.likelihood.runs} runs can prove a mu of at most {reachable:.3g}, so "
            "the likelihood layer could not have seen a violation; ask for more runs\n\n"
        )
    return (
        f"Audit of {report.algorithm}, {_planted(report.fault)}, {report.likelihood.runs} runs on "
        f"each of two neighbouring data sets\nClaimed mu {report.claimed_mu:.4g}; realised by this "
        f"pair {report.replay.realised_mu:.4g}\n\n{_layers(report)}\n\n{note}"
        f"Verdict: {verdict}"
    )


def _layers(report: AuditReport) -> str:
    least, drawn = (
        min(tests.p_values.items(), key=lambda item: item[1])
        for tests in (report.residuals, report.drawn)
    )
    saw = {
        "likelihood": f"mu is at least {report.likelihood.mu:.4g} "
        f"(confidence {report.likelihood.confidence:.0%}); claimed {report.claimed_mu:.4g}",
        "replay": f"answers moved by up to {report.replay.worst_ratio:.4g} of their bound; "
        f"realised mu {report.replay.realised_mu:.4g}, planned {report.replay.planned_mu:.4g}",
        "residuals": f"least p-value {least[1]:.2g} ({least[0]}), "
        f"{len(report.residuals.p_values)} tests at level {report.residuals.level:g} in all",
        "messages": f"sent and recomputed differ by {report.replay.message_gap:.2g}",
        "drawn": f"without a seed: least p-value {drawn[1]:.2g} ({drawn[0]}), "
        f"{len(report.drawn.p_values)} tests at level {report.drawn.level:g} in all",
    }
    rows = [(layer, outcome, saw[layer]) for layer, outcome in report.layers.items()]
    return table([("layer", "outcome", "what it saw"), *rows])
