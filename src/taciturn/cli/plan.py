"""`taciturn plan`: what a run would cost in accuracy, from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from taciturn import checks, training
from taciturn.algorithms import METHODS, Method
from taciturn.cli import console
from taciturn.cli.console import Force, Json, Option, path_option
from taciturn.cli.options import all_options, method_options, run_options
from taciturn.cli.records import counts_of, data_facts, numbers, whole_numbers
from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.features import COLUMNS
from taciturn.models import write_text
from taciturn.problems import NONE
from taciturn.report import agent_values, counted, strict
from taciturn.training import Proposal, Width, expected_width, forecast, warnings_of

_MOST_PLANS = 20
_BUDGET = ("epsilon", "delta", "observer", "relation", "unit")
_COMPARED = (10, 50, 200, 1000)
_USELESS = "the noise may exceed the signal"
_FACTS: dict[str, Option] = {
    "records": Option(int, "Number of records of all agents."),
    "persons": Option(int, "Number of persons, in place of --records; with --rows-per-person."),
    "counts": Option(
        str, "Records, or persons, per agent, separated by commas. [default: equal shares]"
    ),
    "bounds": Option(Path, "A bounds file: it gives columns, record norm and target."),
    "columns": Option(int, "Number of encoded columns of a record."),
    "classes": Option(int, "Number of classes, for multinomial losses."),
    "record_norm": Option(float, "Public bound on a record's norm. [default: 1]"),
}
_OPTIONS = {name: one for name, one in all_options().items() if name != "rounds"}
_OPTIONS["epsilon"] = Option(str, "Total epsilon, or several to compare, as 0.5,1,3.")


@console.takes({**_FACTS, **_OPTIONS})
def plan(
    *,
    data: Annotated[
        str | None, typer.Argument(help="Name of a data set; for other data give public facts.")
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(help="Numbers of rounds to compare. [default: 10,50,200,1000]"),
    ] = None,
    out: Annotated[Path | None, path_option("New file for the proposal, for train.")] = None,
    force: Force = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every prediction and its meaning.")
    ] = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Predict noise and accuracy from public facts; no record is read."""
    stated = {name: given.pop(name) for name in _FACTS} | {"data": data}
    console.check_free(out, force=force)
    compared = _rounds_given(rounds)
    if out is not None and compared is not None and len(compared) > 1:
        raise InputError(
            f"--out writes a proposal of one number of rounds, and --rounds has {len(compared)}; "
            "give the one that taciturn train shall run"
        )
    epsilons = tuple(sorted(set(numbers("epsilon", given["epsilon"])))) or (None,)
    if len(epsilons) > 1:
        also = console.first_given({"out": out, "explain": explain or None})
        if also:
            raise InputError(f"{also} is for one epsilon, and --epsilon has {len(epsilons)}")
        _by_epsilon(stated, given, epsilons, compared, json=json)
        return
    options = {**given, "epsilon": epsilons[0]}
    answer = console.interruptible(lambda: _answer(stated, options, compared))
    values = _values(answer)
    if out is not None:
        write_text(answer.proposal.to_json() + "\n", out)
    if json:
        console.emit(strict({**values, "out": None if out is None else str(out)}))
    else:
        typer.echo(_sentences(answer, values, out, explain=explain))


def _by_epsilon(
    stated: dict[str, Any],
    given: dict[str, Any],
    epsilons: Sequence[float | None],
    rounds: tuple[int, ...] | None,
    *,
    json: bool,
) -> None:
    """Print what depends on epsilon, a line for each; or with `json` a list of the predictions."""
    if len(epsilons) > _MOST_PLANS:
        raise InputError(f"--epsilon has {len(epsilons)} numbers; give at most {_MOST_PLANS}")

    def answers() -> list[_Answer]:
        options = ({**given, "epsilon": epsilon} for epsilon in epsilons)
        return [_answer(stated, one, rounds, brief=True) for one in options]

    found = console.interruptible(answers)
    values = [_values(answer) for answer in found]
    if json:
        console.emit([strict(each) for each in values])
        return
    typer.echo("\n".join(_epsilon_lines(found, values)))


def _epsilon_lines(found: Sequence[_Answer], values: Sequence[dict[str, Any]]) -> list[str]:
    rows = [("epsilon", "mu", "method", "rounds", "multiplier", "noise", "excess risk", "")]
    warned: dict[str, list[str]] = {}
    for answer, each in zip(found, values, strict=True):
        one, epsilon = answer.best or answer.forecasts[0], f"{each['epsilon']:g}"
        mu, multiplier, noise, rule = map(_number, (one.mu, one.multiplier, one.noise, one.rule))
        wide = [] if answer.width is None else [f"error within {answer.width.most:.2%}"]
        marks = [*wide, *([_USELESS] if each["worse_than_zero"] else [])]
        run = (one.algorithm, str(one.rounds))
        rows.append((epsilon, mu, *run, multiplier, noise, rule, "; ".join(marks)))
        risk = forecast.risk_warning(answer.proposal, one)
        for warning in (text for text in each["warnings"] if text not in risk):
            warned.setdefault(warning, []).append(epsilon)
    helps = "fewer columns, more records or, of several agents, the observer sum"
    return [
        _subject(found[0].proposal),
        "         No record was read and no budget was spent.",
        "",
        console.table(rows),
        "",
        "multiplier: noise scale / sensitivity of one answer; excess risk: estimated",
        "noise: standard deviation of the mean answer, per coordinate and round",
        *([f"Where {_USELESS}, what helps: {helps}"] if _USELESS in rows[1][-1] else []),
        *(f"Warning (epsilon {', '.join(at)}): {text}" for text, at in warned.items()),
    ]


class _Answer(NamedTuple):
    proposal: Proposal
    plan: Plan
    forecasts: Sequence[forecast.Forecast]
    best: forecast.Forecast | None
    width: Width | None


def _values(answer: _Answer) -> dict[str, Any]:
    """Return plain values; None where there is no prediction."""
    planned, plan, forecasts, best, width = answer
    facts, budget = planned.facts, planned.budget
    # the largest gradient of a record on the rows that the method asks about
    gradient = planned.setting.facts.gradient_bound
    return {
        **counted(planned),
        "agents": facts.agents,
        "coordinates": facts.dimension,
        "loss": str(planned.clipped_loss),
        "clip": planned.clip,
        "centre": training.centre_text(planned, plan),
        **training.network_values(planned, plan),
        **agent_values(planned, plan.certificate),
        "class_weights": planned.class_weights,
        "record_norm": facts.record_norm,
        "gradient_bound": gradient,
        **{k: getattr(budget, k) for k in _BUDGET},
        "rounds": planned.rounds,
        "floor": forecast.floor(facts, budget.epsilon, units=planned.units),
        "risk_of_zero": forecast.risk_of_zero(planned),
        "excess_of_zero": forecast.excess_of_zero(planned),
        "worse_than_zero": forecast.worse_than_zero(planned, best or forecasts[0]),
        "forecasts": [asdict(one) for one in forecasts],
        "recommended": None if best is None else asdict(best),
        "evaluation": None if width is None else asdict(width),
        "proposal": planned.digest,
        "warnings": (
            *warnings_of(planned),
            *forecast.risk_warning(planned, best or forecasts[0]),
            *training.centre_warning(planned, plan),
        ),
    }


def _answer(
    stated: dict[str, Any],
    options: dict[str, Any],
    rounds: tuple[int, ...] | None,
    *,
    brief: bool = False,
) -> _Answer:
    """Return the predictions; if `brief` those of one method, by default in its usual rounds."""
    only = rounds[0] if rounds is not None and len(rounds) == 1 else None
    of_default = options
    if options["algorithm"] is None:  # options of methods that are only compared with the default
        default_has = METHODS[next(iter(METHODS))].has
        lacking = (name for name in method_options() if not default_has(name))
        of_default = {**options, **dict.fromkeys(lacking)}
    run = run_options({**of_default, "rounds": only})
    request = run.request
    checks.positive("epsilon", request.epsilon)
    data = data_facts(stated, request.loss)
    default = run.default_agents(published=stated["data"] is not None)
    counts = counts_of(stated, run.agents, default=default, rows_per_person=request.rows_per_person)
    structure = run.structure.of_columns(request.facts_with_features(data).names)
    dealt = stated["counts"] is None and len(counts) > 1  # --counts says what each agent has
    planned = training.propose(data, counts, request, structure, dealt=dealt)
    single = request.centre or brief
    names = [planned.method.name] if single else _names(planned, options)
    _check_used(names, options)
    if request.epochs is not None:
        if rounds is not None:
            raise InputError("epochs and rounds are given, each of which fixes the other; give one")
        rounds = (planned.rounds,)
    forecasts, features = [], planned.data.features or COLUMNS
    for name in names:
        method = request.methods[name]
        needed = structure if method.structure == "required" else None
        # of another method the loss, and its options that depend on no other
        free = (one.name for one in method.options if one.only is None)
        kept = {k: options[k] for k in free if options[k] is not None}
        if name == request.algorithm:
            kept = dict(request.options)
        none = NONE
        alone = replace(request, algorithm=name, features=features, options=kept, epochs=None)
        alone = replace(alone, regulariser=none, constraint=none)
        usual = training.propose(data, counts, replace(alone, rounds=None), needed, dealt=dealt)
        least = (usual.rounds,) if brief and rounds is None else rounds
        for count in _rounds(method, usual.rounds, least):
            now = replace(alone, rounds=count)
            compared = training.propose(data, counts, now, needed, dealt=dealt)
            forecasts.append(forecast.forecast(compared, request.methods))
    plan = planned.plan(request.methods)
    first = [one for one in forecasts if one.algorithm == names[0]]
    if rounds is None:  # the default, whatever it was compared with
        first = [one for one in first if one.rounds == planned.rounds]
    best = forecast.recommended(first)
    return _Answer(planned, plan, forecasts, best, expected_width(planned, plan))


def _rounds(method: Method, usual: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the numbers of rounds to compare, including the default of taciturn train."""
    if method.rounds == 1:
        return (1,)
    if given is not None:
        return given
    # others need not be whole epochs or sweeps
    free = method.enough is not None or usual == method.rounds
    return tuple(sorted({*_COMPARED, usual})) if free else (usual,)


def _names(planned: Proposal, options: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods to forecast, the default of `taciturn train` first."""
    if options["algorithm"] is not None:
        return (planned.method.name,)
    sampled, squared = options["sampling_rate"] is not None, planned.data.task == "regression"
    return tuple(
        name
        for name in forecast.PREDICTED
        if (sampled or not METHODS[name].sampled) and (squared or METHODS[name].rounds > 1)
    )


def _check_used(names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise `InputError` for an option of methods that none of the methods to forecast takes."""
    known = [METHODS[name] for name in names if name in METHODS]
    if len(known) < len(names):  # a method of the user's, which checks its options itself
        return
    taken = {one.name for method in known for one in method.options if one.only is None}
    unused = [name for name in method_options() if options[name] is not None]
    unused = [name for name in unused if name not in taken and options["algorithm"] is None]
    if unused:
        users = ", ".join(name for name, method in METHODS.items() if method.has(unused[0]))
        raise InputError(
            f"{unused[0].replace('_', '-')} has no effect on {', '.join(names)}; name a method "
            f"that has it ({users}) with --algorithm, or leave it out"
        )


def _rounds_given(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    given = whole_numbers("rounds", text)
    if len(given) > _MOST_PLANS:
        raise InputError(f"--rounds has {len(given)} numbers; give at most {_MOST_PLANS}")
    return tuple(sorted(set(given)))


def _subject(planned: Proposal) -> str:
    """Return what is planned for, as the first line."""
    facts = planned.facts
    agents = "1 agent" if facts.agents == 1 else f"{facts.agents} agents"
    return (
        f"Plan     {planned.data.name}: {planned.units_text}, {agents}, {facts.dimension} "
        f"coefficients, loss {planned.clipped_loss}"
    )


def _sentences(answer: _Answer, values: dict[str, Any], out: Path | None, *, explain: bool) -> str:
    planned, budget = answer.proposal, answer.proposal.budget
    mu = next((one.mu for one in answer.forecasts if one.mu is not None), None)
    total = "" if mu is None else f" (mu {mu:.4f})"
    further = {
        "Weights": planned.weights_text,
        "Features": planned.data.features,
        "Rows": values["centre"],
        **{
            name.capitalize(): what
            for name, what in training.agent_rows(planned, answer.plan, answer.plan.certificate)
        },
        **{name.capitalize(): what for name, what in training.network_rows(planned, answer.plan)},
    }
    lines = [
        _subject(planned),
        f"Privacy  epsilon {budget.epsilon:g}, delta {budget.delta:g}{total}; relation "
        f"{budget.relation}, unit {budget.unit}, observer {budget.observer}",
        "         No record was read and no budget was spent.",
        *(f"{name:8} {text}" for name, text in further.items() if text is not None),
        "",
        *(_explained(answer, values) if explain else _compared(answer)),
        *([] if answer.width is None else answer.width.lines()),
        *(f"Warning: {warning}" for warning in values["warnings"]),
    ]
    if out is not None:
        lines.append(f"Proposal: {out} ({planned.method.name}, {planned.rounds} rounds)")
    return "\n".join(lines)


def _compared(answer: _Answer) -> list[str]:
    """Return the noise and the estimated risk of each method and number of rounds."""
    rows = [("method", "rounds", "noise", "estimated excess risk", "")]
    for one in answer.forecasts:
        numbers = (_number(one.noise), _number(one.rule))
        runs = "what taciturn train runs"
        fewest = "the fewest rounds within 5 % of the best"
        chosen = f"<- recommended: {runs if one.rounds == answer.proposal.rounds else fewest}"
        mark = chosen if one == answer.best and one.rounds > 1 else ""
        rows.append((one.algorithm, str(one.rounds), *numbers, mark))
    return [
        console.table(rows),
        "",
        "noise: standard deviation of the mean answer, per coordinate and round",
        *_advice(answer),
        "More: --explain (proven bounds, the lower bound, and what the noise does)",
    ]


def _explained(answer: _Answer, values: dict[str, Any]) -> list[str]:
    """Return every prediction for each method, and the meaning of the columns."""
    head = ("method", "rounds", "multiplier", "noise", "margin", "proven", "rule", "basis")
    rows = [
        (
            one.algorithm,
            str(one.rounds),
            *map(_number, (one.multiplier, one.noise, one.margin_noise, one.proven, one.rule)),
            one.basis,
        )
        for one in answer.forecasts
    ]
    zero = values["risk_of_zero"]
    return [
        console.table([head, *rows]),
        "",
        "multiplier  noise scale / sensitivity of one answer",
        "noise       standard deviation of the mean answer, per coordinate and round (of a",
        "            gradient; of X'X/m for one-question)",
        "margin      standard deviation that this noise adds to a record's margin over the run",
        "proven      bound on the expected excess risk, if the best model has norm at most "
        "sqrt(d)/R",
        "rule        estimate of the excess risk, not proven for the method as it is run",
        "",
        f"Records: norm at most {values['record_norm']:g}, gradient at most "
        f"{values['gradient_bound']:g}",
        f"Lower bound: on some data no private method has an excess risk below about "
        f"{values['floor']:.3g} (Bassily, Smith and Thakurta 2014, Theorem 5.3, without its "
        "constant)",
        *([] if zero is None else [f"Model 0, which uses no record: risk at most {zero:.3g}"]),
        *_advice(answer),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _advice(answer: _Answer) -> list[str]:
    """Return which rounds do as well as those that `train` runs, and that none are known."""
    best, rounds = answer.best, answer.proposal.rounds
    if best is None:
        return ["No number of rounds is recommended: no estimate is known here"]
    fewest = forecast.recommended(f for f in answer.forecasts if f.algorithm == best.algorithm)
    assert fewest is not None
    if fewest.rounds in {1, rounds}:
        return []
    return [
        f"{fewest.rounds} rounds are the fewest estimated within 5 % of the best; taciturn train "
        f"runs {rounds} with these options, unless --rounds says otherwise"
    ]
