"""The options of a run, declared once for the commands that take one.

The options of methods, losses, regularisers and constraints are read off their tables.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from tacit import checks
from tacit.algorithms import METHODS, those_with
from tacit.cli.own import with_own
from tacit.cli.paths import path
from tacit.errors import InputError
from tacit.problems import CONSTRAINTS, LOSSES, REGULARISERS, usage
from tacit.proposal import Named, Request, StructureWanted, Wanted
from tacit.training import DEFAULT_AGENTS

F = TypeVar("F", bound=Callable[..., Any])


def _methods_help() -> str:
    """Return the names of the methods, by what they need."""
    plain = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]
    networks = [n for n, m in METHODS.items() if m.network is not None]
    structures = [n for n, m in METHODS.items() if m.structure is not None]
    return (
        f"With an aggregator: {', '.join(plain)}; the first if not given. On a network: "
        f"{', '.join(networks)}. With --structure: {', '.join(structures)}. Or one of your own: "
        "module:Class."
    )


_RUN: Mapping[str, tuple[Any, str]] = {
    "epsilon": (float, "Total budget; inf for a run without noise."),
    "delta": (float, "Total budget; at most 1/(10 x records)."),
    "agents": (int, "Among how many the records are dealt; 10, or 1 with --structure."),
    "loss": (str, f"{usage(LOSSES)}; by the target if not given."),
    "regulariser": (str, f"{usage(REGULARISERS)}; l2:1e-6 if not given."),
    "constraint": (str, f"{usage(CONSTRAINTS)}; none if not given."),
    "clip": (float, "Bound on a record's coefficient; by the loss if not given."),
    "observer": (str, "messages (if not given): every link is read; sum: secure aggregation."),
    "relation": (str, "replace_one (if not given) or zero_out."),
    "algorithm": (str, _methods_help()),
    "structure": (str, "lasso, fused-lasso or generalized-lasso."),
    "graph": (Path, "CSV, public: edges of fused-lasso, A of generalized-lasso."),
    "network": (
        str,
        "Without aggregator: ring (if not given), path, star, complete, grid, grid:RxC, "
        "erdos-renyi:P, regular:D, or a file of edges (.txt, .csv, .edges, .graphml).",
    ),
    "walk": (str, "On a relay: cyclic (if not given) or random."),
    "cap": (int, "On a relay: the most answers that an agent gives."),
    "split_seed": (int, "Of the split and of the dealing out; 0 if not given."),
}


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The options of a run as they were given; None where they were not.

    Attributes
    ----------
    agents
        Among how many the records are dealt; None for `default_agents`, and where they have owners.
    """

    request: Request
    structure: StructureWanted
    agents: int | None
    default_agents: int


def method_options() -> dict[str, tuple[type, str]]:
    """Return type and help text of every option that some method has."""
    names = dict.fromkeys(one.name for method in METHODS.values() for one in method.options)
    options = {one.name: one for method in METHODS.values() for one in method.options}
    return {
        name: (options[name].kind, f"{options[name].help} Of {', '.join(those_with(name))}.")
        for name in names
    }


def takes_run_options(command: F) -> F:
    """Return the command with the options of a run added, which it receives by name."""
    return _with(command, {**_RUN, **method_options()})


def takes_method_options(command: F) -> F:
    """Return the command with the options of methods added, which it receives by name."""
    return _with(command, method_options())


def _with(command: F, options: Mapping[str, tuple[Any, str]]) -> F:
    signature = inspect.signature(command, eval_str=True)
    declared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                kind | None, typer.Option(help=text, parser=path if kind is Path else None)
            ],
        )
        for name, (kind, text) in options.items()
    ]
    parameters = [*declared[:1], *added, *declared[1:]]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def wishes_of(given: Mapping[str, Any], *, rounds: int | None) -> Wishes:
    """Return what the options of a run ask for, checked as far as that needs no facts.

    Raises
    ------
    InputError
        With the fix.
    """
    for name in ("epsilon", "delta"):
        if given[name] is None:
            raise InputError(f"no {name} is given; a budget has no default, so add --{name}")
    algorithm = next(iter(METHODS)) if given["algorithm"] is None else given["algorithm"]
    methods = with_own(algorithm)
    structure = StructureWanted(
        name=given["structure"],
        weights=_named(given, "regulariser"),
        graph=None if given["graph"] is None else str(given["graph"]),
        **{k: given[k] for k in ("graph_from", "graph_weight") if given.get(k) is not None},
    )
    request = Request(
        epsilon=given["epsilon"],
        delta=given["delta"],
        algorithm=algorithm,
        clip=given["clip"],
        rounds=rounds,
        options={k: given[k] for k in method_options() if given[k] is not None},
        network=Wanted(network=given["network"], walk=given["walk"], cap=given["cap"]),
        methods=methods,
        **_only_given(given, ("observer", "relation", "split_seed")),
        **_only_named(given, ("loss", "regulariser", "constraint")),
    )
    structure.check(algorithm, request.method)
    if structure.name is not None and given["constraint"] not in {None, "none"}:
        raise InputError("a structure comes without a constraint; leave the constraint out")
    if given["agents"] is not None:
        checks.at_least("agents", given["agents"], 1)
    return Wishes(
        request=request,
        structure=structure,
        agents=given["agents"],
        default_agents=DEFAULT_AGENTS if structure.name is None else 1,
    )


def given_names(given: Mapping[str, Any]) -> list[str]:
    """Return the options of a run that were given, as the command line writes them."""
    return [f"--{name.replace('_', '-')}" for name, one in given.items() if one is not None]


def _only_given(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _only_named(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _named(given, name) for name in names if given[name] is not None}


def _named(given: Mapping[str, Any], what: str) -> Named | None:
    return None if given[what] is None else Named.parse(what, given[what])
