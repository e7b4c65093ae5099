"""`taciturn tune`: train candidates within one budget, and select one on held-out records."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn.budget import Account
from taciturn.cli import console
from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given, confirmed, failed_if_interrupted
from taciturn.cli.console import Force, Json, Option, Quiet, Seed, path_option
from taciturn.cli.options import all_options, run_options
from taciturn.cli.outcome import Keeper, Output, deliver, warned
from taciturn.cli.records import counted_records, is_table
from taciturn.datasets import FACTS
from taciturn.engine import check_chargeable
from taciturn.errors import InputError
from taciturn.report import check_out, save_released
from taciturn.training import (
    Attempts,
    Counted,
    Training,
    check_seed,
    propose,
    tuning,
)

# what all candidates share, for they are chosen among within one budget, on the same records
_SHARED = frozenset({
    "epsilon", "delta", "agents", "evaluate", "observer", "colluders", "relation",
    "rows_per_person", "agents_per_person", "split_seed",
})  # fmt: skip


def candidates_in(file: Path) -> list[dict[str, Any]]:
    """Return the options of each candidate in a TOML file, checked for their names and types.

    Either options with lists, as in ``rounds = [20, 50]``, of which every combination is a
    candidate, the last option varying fastest; or one table ``[[candidates]]`` for each.
    """
    try:
        values = tomllib.loads(console.read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{file} is no TOML ({error}); see the how-to page of taciturn tune"
        ) from error
    tables = values.pop("candidates", None)
    if tables is not None and values:
        raise InputError(
            f"{file} has tables [[candidates]] and the option {next(iter(values))!r} beside them; "
            "give either tables or lists"
        )
    if tables is None:
        tables = _combined(values, file)
    elif not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise InputError(f"{file}: candidates are no tables; write [[candidates]] over each")
    return [_checked(one, file) for one in tables]


def _combined(values: Mapping[str, Any], file: Path) -> list[dict[str, Any]]:
    for name, value in values.items():
        if not isinstance(value, list) or not value:
            raise InputError(
                f"{file}: {name} is no list; give its values in brackets, as in {name} = [...]"
            )
    if math.prod(map(len, values.values())) > tuning.MOST_CANDIDATES:
        raise InputError(
            f"{file} has more than {tuning.MOST_CANDIDATES} combinations; give fewer values, since "
            "each candidate adds to the noise of all"
        )
    combinations = itertools.product(*values.values())
    return [dict(zip(values, chosen, strict=True)) for chosen in combinations]


def _checked(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    known = {name: one.kind for name, one in all_options().items() if name not in _SHARED}
    options = {}
    for written, value in values.items():
        name = written.replace("-", "_")
        if name in _SHARED:
            raise InputError(f"{file}: {written} is the same for all candidates; give --{written}")
        if name not in known:
            raise InputError(f"{file}: there is no option {written!r}; see taciturn train --help")
        if name in options:
            raise InputError(f"{file}: {written} is given twice for one candidate; give it once")
        options[name] = _of_kind(known[name], value, f"{file}: {written}")
    return options


def _of_kind(kind: Any, value: Any, what: str) -> Any:
    """Return a value in the form of the command-line option."""
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    right = type(value) is kind
    if kind == list[str]:
        right = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not right:
        name = getattr(kind, "__name__", str(kind)) if kind is not Path else "str"
        raise InputError(f"{what} is {value!r}; give a value of the type {name}")
    return value


SHARE = 0.2
_OPTIONS = {
    **all_options(),
    "evaluate": Option(
        float, f"Share of each agent's records held out for the choice. [default: {SHARE:g}]"
    ),
    **console.TABLE_OPTIONS,
    **ACCOUNT_OPTIONS,
}


@console.takes(_OPTIONS)
def tune(  # noqa: PLR0913 - one parameter per option
    *,
    data: Annotated[str, typer.Argument(help=f"{', '.join(FACTS)}; or a table's file or folder.")],
    candidates: Annotated[Path, path_option("TOML file: lists of options, or tables of them.")],
    seed: Seed = None,
    out: Annotated[Path | None, path_option("New folder for the report of the winner.")] = None,
    force: Force = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the cost only; no record is read.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Train several candidates and choose one on held-out records, within one budget."""
    tables = {name: given.pop(name) for name in console.TABLE_OPTIONS}
    output = Output(out, force, False, False, json)
    account = account_given(given)
    if seed is not None:
        check_seed("seed", seed)
    if account is not None:
        check_chargeable(seed=seed, conditional=False)
    if out is not None:
        check_out(out, force=force)
    options = candidates_in(candidates)
    shown = not (json or quiet)
    prepared = console.interruptible(
        lambda: _prepared(data, tables, given, options, output, account)
    )
    names = tuple(candidate.name for candidate in prepared.proposal.candidates)
    if plan and json:
        console.emit({"candidates": names, **dataclasses.asdict(prepared.price)})
    if not json:
        typer.echo("\n".join(map(console.printable, prepared.price.lines(names))))
    if plan:
        return
    found = _run(prepared, output, seed=seed, shown=shown)
    for line in found.training.failures:
        warned(line)
    keeper = Keeper(replace(output, force=True))  # the candidates are in the folder
    keeper.settle(found.training)
    attempts = Attempts(warned)
    deliver(
        found.training,
        keeper,
        further=attempts.attempt("stating the choice", lambda: {"choice": found.to_dict()}, None),
        head=attempts.attempt("stating the pick", lambda: _lines(found, prepared), ()),
    )


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A proposal with its cost, and the data to run it on; nothing is spent yet."""

    proposal: tuning.TuneProposal
    price: tuning.Price
    data: Counted
    account: Account | None


def _prepared(
    name: str,
    tables: dict[str, Any],
    given: dict[str, Any],
    candidates: Sequence[dict[str, Any]],
    output: Output,
    account: Account | None,
) -> _Prepared:
    """Return what is proposed, from public facts alone; cells of tables are read later."""
    share = SHARE if given["evaluate"] is None else given["evaluate"]
    every = [{**given, "evaluate": None, **options} for options in ({}, *candidates)]
    default, *others = [run_options(one) for one in every]
    division = default.division(published=not is_table(name))
    data = counted_records(name, tables, output, lambda _: division)
    requests = []
    for options, run in zip(candidates, others, strict=True):
        title = ", ".join(f"{k.replace('_', '-')} {value}" for k, value in options.items())
        requests.append((title or "default", run.request, run.structure))
    facts, counts, dealt = data.facts, data.all_counts, data.dealt
    proposal = tuning.propose_choice(facts, counts, requests, share=share, dealt=dealt)
    alone = None
    with suppress(InputError):  # the default alone need not suit the records
        alone = propose(facts, counts, default.request, dealt=dealt)
    price = tuning.price_of(proposal, tuning.plan_choice(proposal), alone)
    return _Prepared(proposal, price, data, account)


def _run(prepared: _Prepared, output: Output, *, seed: int | None, shown: bool) -> tuning.Tuned:
    def keep(number: int, training: Training) -> None:  # before the next one is trained
        if output.out is not None:
            folder = output.out / "candidates" / str(number + 1)
            save_released(training, folder, force=output.force)

    proposal, data, account = prepared.proposal, prepared.data, prepared.account
    if account is not None:
        account = confirmed(account, (file.digest for file in data.files), data.columns)
    interrupted = failed_if_interrupted(account)
    with interrupted, console.bar(len(proposal.candidates), shown=shown) as report:
        return console.interruptible(
            lambda: tuning.tune(
                data,
                proposal,
                seed=seed,
                account=account,
                price=prepared.price,
                report=report,
                release=keep,
            )
        )


def _lines(found: tuning.Tuned, prepared: _Prepared) -> list[str]:
    """Return the selected candidate, and what is known of its benefit over its cost."""
    names, price = found.names, prepared.price
    votes = [found.picks.count(place) for place in range(len(names))]
    voters = f"{max(votes)} of {len(found.picks)} agents" if len(found.picks) > 1 else "the agent"
    risk = price.risks[found.picked]
    worth = "whether picking was worth its price, theory does not say here"
    if price.alone is not None and risk is not None:
        worth = (
            f"theory puts its excess risk at {risk:.3g}, and at {price.alone:.3g} for the default "
            "by itself at the whole budget; picking was worth it if, without noise, its loss would "
            f"be lower by more than {max(0.0, risk - price.alone):.3g}"
        )
    return [
        f"Picked: {names[found.picked]} (by {voters})",
        f"Worth: {worth}. To measure it would be another question to these records",
    ]
