"""`tacit plan`: what a run would cost in accuracy, from public facts alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit import checks
from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, one_of, table
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.problems import Problem
    from tacit.proposal.forecast import Forecast
    from tacit.spec import Spec
    from tacit.training import Request

_OBSERVERS = ("messages", "sum")
_RELATIONS = ("replace_one", "zero_out")
_TASKS = {
    "logistic": "binary", "hinge": "binary", "multinomial": "multiclass", "squared": "regression",
}  # fmt: skip
_MOST_PLANS = 20


def plan(  # noqa: PLR0913, PLR0917 - one parameter per option
    records: Annotated[int, typer.Option(help="Of all agents together.")],
    epsilon: Annotated[float, typer.Option(help="Total budget.")],
    delta: Annotated[float, typer.Option(help="Total budget; at most 1/(10 x records).")],
    agents: Annotated[int, typer.Option(help="Among whom the records lie in equal shares.")] = 10,
    bounds: Annotated[
        Path | None, typer.Option(help="A bounds file: it gives features, record norm and loss.")
    ] = None,
    features: Annotated[int | None, typer.Option(help="Columns of a record.")] = None,
    loss: Annotated[
        str | None, typer.Option(help="logistic, squared, multinomial or hinge:H.")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="For multinomial.")] = None,
    record_norm: Annotated[
        float | None, typer.Option(help="Public bound on a record's norm; 1 if not given.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Bound on a record's coefficient; by the loss.")
    ] = None,
    observer: Annotated[str, typer.Option(help="messages or sum.")] = "messages",
    relation: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    rounds: Annotated[str, typer.Option(help="Numbers to compare.")] = "10,50,200,1000",
    algorithm: Annotated[
        str | None, typer.Option(help="One only; else all that suit the loss, without dp-sgd.")
    ] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Of dp-sgd's batches: 0.1 if not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Predict noise and accuracy before spending anything: no data is read."""
    given = _Given(records, agents, bounds, features, loss, classes, record_norm)
    asked = {
        "agents": agents, "epsilon": epsilon, "delta": delta, "observer": observer,
        "relation": relation, "clip": clip, "sampling_rate": sampling_rate,
    }  # fmt: skip
    found = interruptible(lambda: _answered(given, asked, algorithm, _numbers(rounds)))
    if json:
        from tacit.report import strict  # noqa: PLC0415 - start-up

        emit(strict(found.to_dict()))
    else:
        typer.echo(_sentences(found))


@dataclass(frozen=True)
class _Given:
    records: int
    agents: int
    bounds: Path | None
    features: int | None
    loss: str | None
    classes: int | None
    record_norm: float | None


@dataclass(frozen=True)
class _Public:
    """What the options say of the records."""

    problem: Problem
    loss: str
    features: int
    record_norm: float
    conditional: bool


@dataclass(frozen=True)
class _Answer:
    loss: str
    facts: Spec
    request: Request
    floor: float
    forecasts: tuple[Forecast, ...]
    best: Forecast | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None where nothing is known."""
        facts, request = self.facts, self.request
        return {
            "records": sum(facts.counts),
            "agents": facts.agents,
            "coordinates": facts.dimension,
            "loss": self.loss,
            "record_norm": facts.record_norm,
            "gradient_bound": facts.gradient_bound,
            **{k: getattr(request, k) for k in ("epsilon", "delta", "observer", "relation")},
            "floor": self.floor,
            "forecasts": [dataclasses.asdict(one) for one in self.forecasts],
            "recommended": None if self.best is None else dataclasses.asdict(self.best),
            "warnings": self.warnings,
        }


def _answered(
    given: _Given, asked: dict[str, Any], algorithm: str | None, rounds: tuple[int, ...]
) -> _Answer:
    from tacit.problems import facts_from  # noqa: PLC0415 - start-up
    from tacit.proposal.forecast import floor, forecast, own_rounds, recommended  # noqa: PLC0415
    from tacit.proposal.planning import coefficient_clip  # noqa: PLC0415 - start-up
    from tacit.proposal.request import sampling_rate  # noqa: PLC0415 - start-up
    from tacit.training import Request  # noqa: PLC0415 - start-up

    public, counts = _public(given), _counts(given)
    names = _names(public, algorithm, batches=asked["sampling_rate"] is not None)
    request = Request(**asked, algorithm=algorithm or names[0])
    _check(request, rounds)
    if algorithm is not None:
        sampling_rate(request)
    clip = coefficient_clip(public.problem.loss, request)
    facts = facts_from(
        public.problem, counts, features=public.features, record_norm=public.record_norm, clip=clip
    )
    found = tuple(
        forecast(public.problem, facts, _named(request, name), count)
        for name in names
        for count in own_rounds(name, rounds)
    )
    best = recommended(f for f in found if f.algorithm == names[0])
    warnings = _warnings(given, public, request)
    return _Answer(
        public.loss, facts, request, floor(facts, request.epsilon), found, best, warnings
    )


def _public(given: _Given) -> _Public:
    from tacit.problems import NoRegulariser, Problem, WholeSpace  # noqa: PLC0415 - start-up
    from tacit.proposal.options import DEFAULT_LOSS, loss_named  # noqa: PLC0415 - start-up

    task, classes, features, norm, conditional = (
        _by_file(given) if given.bounds else _by_hand(given)
    )
    loss = given.loss or DEFAULT_LOSS[task]
    problem = Problem(loss_named(loss, task, classes), NoRegulariser(), WholeSpace())
    return _Public(problem, loss, features, norm, conditional)


def _by_hand(given: _Given) -> tuple[Any, int | None, int, float, bool]:
    for name, value in (("features", given.features), ("loss", given.loss)):
        if value is None:
            raise InputError(f"no {name} given; add --{name}, or --bounds FILE, which says it")
    task = _TASKS.get(str(given.loss).partition(":")[0])
    if task is None:
        raise InputError(
            f"loss is {given.loss!r}; choose from logistic, hinge:H, multinomial, squared"
        )
    if (task == "multiclass") != (given.classes is not None):
        raise InputError(
            "--classes goes with --loss multinomial, which needs it, and with no other loss"
        )
    if given.classes is not None:
        checks.at_least("classes", given.classes, 2)
    features = checks.at_least("features", given.features or 0, 1)
    norm = 1.0 if given.record_norm is None else checks.positive("record-norm", given.record_norm)
    return task, given.classes, features, norm, False


def _by_file(given: _Given) -> tuple[Any, int | None, int, float, bool]:
    from tacit.tables import Categories, read_bounds  # noqa: PLC0415 - start-up
    from tacit.tables.encode import encoded_names, encoded_norm  # noqa: PLC0415

    for name in ("features", "classes", "record_norm"):
        if getattr(given, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} follows from the bounds file; leave it or --bounds out")
    facts = read_bounds(Path(given.bounds or ""))
    classes = len(facts.target.values) if isinstance(facts.target, Categories) else None
    task = "regression" if classes is None else "binary" if classes == 2 else "multiclass"
    size, norm = len(encoded_names(facts)), encoded_norm(facts)
    return task, classes, size, norm, facts.origin == "data"


def _names(public: _Public, algorithm: str | None, *, batches: bool) -> tuple[str, ...]:
    """Return which methods to forecast, the default of `tacit train` first."""
    from tacit.algorithms import METHODS, STAR_ALGORITHMS  # noqa: PLC0415 - start-up

    if algorithm is not None:
        plain = tuple(name for name in STAR_ALGORITHMS if not METHODS[name].structured)
        return (one_of("--algorithm", algorithm, plain),)
    once = ("one-question",) if public.loss == "squared" else ()
    return ("noisy-gradient", "dp-admm", *once, *(("dp-sgd",) if batches else ()))


def _named(request: Request, name: str) -> Request:
    from tacit.algorithms import method_named  # noqa: PLC0415 - start-up

    rate = request.sampling_rate if method_named(name).sampled else None
    return dataclasses.replace(request, algorithm=name, sampling_rate=rate)


def _check(request: Request, rounds: tuple[int, ...]) -> None:
    from tacit.engine.plan import check_size  # noqa: PLC0415 - start-up
    from tacit.proposal.request import terms_for  # noqa: PLC0415 - start-up

    one_of("--observer", request.observer, _OBSERVERS)
    one_of("--relation", request.relation, _RELATIONS)
    checks.positive("epsilon", request.epsilon)
    terms_for(request)
    if request.sampling_rate is not None:
        checks.fraction("sampling-rate", request.sampling_rate)
    for count in rounds:
        check_size(count, request.agents)


def _counts(given: _Given) -> list[int]:
    records = checks.at_least("records", given.records, 1)
    agents = checks.at_least("agents", given.agents, 1)
    if agents > records:
        raise InputError(
            f"{agents} agents cannot share {records} records; ask for at most {records}"
        )
    return [records // agents + (agent < records % agents) for agent in range(agents)]


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 20 for part in parts):
        raise InputError(f"--rounds is {text!r}; give whole numbers with commas, as in 10,50,200")
    if len(parts) > _MOST_PLANS:
        raise InputError(f"--rounds has {len(parts)} numbers; give at most {_MOST_PLANS}")
    return tuple(sorted({checks.at_least("rounds", int(part), 1) for part in parts}))


def _warnings(given: _Given, public: _Public, request: Request) -> tuple[str, ...]:
    from tacit.privacy import delta_warning  # noqa: PLC0415 - start-up

    found = delta_warning(request.delta, given.records)
    if public.conditional:
        found += ("the bounds file was filled in from the records, and so is this answer",)
    return found


def _sentences(found: _Answer) -> str:
    facts, request = found.facts, found.request
    mu = next((f.mu for f in found.forecasts if f.mu is not None), None)
    total = "" if mu is None else f" (mu = {mu:.4f})"
    return "\n".join([
        f"{sum(facts.counts):,} records of {facts.agents} agents, {facts.dimension} coordinates, "
        f"{found.loss} loss, record norm {facts.record_norm:g}, record gradient at most "
        f"{facts.gradient_bound:g}",
        f"Total epsilon {request.epsilon:g} at delta {request.delta:g}{total}, relation "
        f"{request.relation}, observer {request.observer}. No data was read, nothing was spent.",
        "",
        table([_HEAD, *(_row(f) for f in found.forecasts)]),
        "",
        *_legend(found),
        *(f"Warning: {warning}" for warning in found.warnings),
    ])  # fmt: skip


_HEAD = ("algorithm", "rounds", "multiplier", "noise", "margin", "proven", "rule", "basis")


def _row(one: Forecast) -> tuple[str, ...]:
    numbers = (one.multiplier, one.noise, one.margin_noise, one.proven, one.rule)
    shown = ("-" if value is None else f"{value:.3g}" for value in numbers)
    return (one.algorithm, str(one.rounds), *shown, one.basis)


def _legend(found: _Answer) -> list[str]:
    return [
        "noise   standard deviation per coordinate of the mean answer in one round (a gradient;",
        "        X'X/m for one-question); multiplier: noise scale / sensitivity of one answer",
        "margin  by how much that noise moves a record's margin over the run",
        "proven  bound on the expected excess risk, if the best model has norm at most sqrt(d)/R",
        "rule    estimate of the excess risk that is not proved for the method as it is run",
        "",
        f"Worst case: on some data no private method does better than about {found.floor:.3g}",
        "        (Bassily, Smith and Thakurta 2014, Theorem 5.3, without its constant)",
        _advice(found),
    ]


def _advice(found: _Answer) -> str:
    best = found.best
    if best is None:
        return "No number of rounds is recommended: no rule is known here"
    if best.rounds == 1:
        return f"{best.algorithm} asks once"
    return (
        f"Recommended: {best.algorithm}, {best.rounds} rounds. At a fixed total budget the noise "
        "per round grows as sqrt(rounds), so a run collects no less noise in fewer and no more in "
        f"many; {best.rounds} are the fewest listed whose rule is within 5 % of the least"
    )
