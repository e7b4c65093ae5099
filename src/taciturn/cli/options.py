"""The options of a run, declared once for the commands that take one.

The options of methods, losses, regularisers and constraints come from their tables. A method that
the user wrote is `module:Class` in place of a name.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from taciturn import checks
from taciturn.algorithms import (
    METHODS,
    Algorithm,
    Composition,
    GossipAlgorithm,
    Method,
    RelayAlgorithm,
    Setting,
    Value,
)
from taciturn.errors import InputError
from taciturn.features import usage as feature_usage
from taciturn.oracles import Gradient
from taciturn.privacy import Observer, Sum, observer_named
from taciturn.problems import CONSTRAINTS, LOSSES, REGULARISERS, Problem, usage
from taciturn.proposal import (
    DEFAULT_NETWORK,
    DEFAULT_REGULARISER,
    Named,
    NetworkRequest,
    Request,
    StructureRequest,
)
from taciturn.training import DEFAULT_AGENTS


def _methods_help() -> str:
    """Return the names of the methods, by what they need."""
    plain = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]
    networks = [n for n, m in METHODS.items() if m.network is not None]
    structures = [n for n, m in METHODS.items() if m.structure is not None]
    return (
        f"With an aggregator, or on a --network along a spanning tree: {', '.join(plain)}; "
        f"{plain[0]} if not given. On a network by gossip or relay: {', '.join(networks)}. "
        f"With --structure: {', '.join(structures)}. Or one of your own: module:Class."
    )


_RUN: Mapping[str, tuple[Any, str]] = {
    "epsilon": (float, "Total budget; inf for a run without noise."),
    "delta": (float, "Total budget; at most 1/(10 x records)."),
    "agents": (int, f"How many share the records; {DEFAULT_AGENTS}, or 1 with --structure."),
    "features": (str, f"Public feature map: {feature_usage()}; the columns if not given."),
    "centre": (
        bool,
        "The first round learns a private centre of the rows; if not given, where that pays.",
    ),
    "evaluate": (
        float,
        "Share of each agent's records, or persons, as in 0.1, that is held out and answers how "
        "good the model is, privately; none if not given.",
    ),
    "loss": (str, f"{usage(LOSSES)}; by the target if not given."),
    "class_weight": (
        list[str],
        "LABEL=WEIGHT, public: the weight in (0, 1] of a label's records; may be repeated; 1 for "
        "labels that are not named.",
    ),
    "prior": (
        list[str],
        "LABEL=SHARE, public: the share of a label; once for each label. Labels then count alike.",
    ),
    "regulariser": (str, f"{usage(REGULARISERS)}; {DEFAULT_REGULARISER} if not given."),
    "constraint": (str, f"{usage(CONSTRAINTS)}; none if not given."),
    "clip": (float, "Bound on a record's coefficient; by the loss if not given."),
    "rows_per_person": (
        int,
        "Public: protect persons, with so many rows each at most, and not single records. Further "
        "rows are left out.",
    ),
    "agents_per_person": (
        int,
        "Public, with --rows-per-person: at how many agents a person has rows, at most; 1 if not "
        "given. More takes more noise.",
    ),
    "observer": (
        str,
        "messages (if not given): every link is read; sum: only the sum over all agents is, by "
        "masks in a study; elsewhere that is assumed.",
    ),
    "colluders": (
        int,
        "With --observer sum: how many participants tell the observer what they know, at most; 1 "
        "if not given.",
    ),
    "relation": (str, "replace_one (if not given) or zero_out."),
    "algorithm": (str, _methods_help()),
    "structure": (str, "lasso, fused-lasso or generalized-lasso."),
    "graph": (Path, "CSV, public: edges of fused-lasso, A of generalized-lasso."),
    "network": (
        str,
        "Without aggregator: ring, path, star, complete, grid, grid:RxC, erdos-renyi:P, regular:D, "
        "or a file of edges (.txt, .csv, .edges, .graphml). Sums go along a spanning tree, unless "
        f"--algorithm names gossip or a relay ({DEFAULT_NETWORK} for these if not given).",
    ),
    "walk": (str, "On a relay: cyclic (if not given) or random."),
    "cap": (int, "On a relay: the most answers that an agent gives."),
    "exchanges": (
        int,
        "In gossip: how often the messages of one question are exchanged; 1 if not given. More "
        "cost messages and no privacy.",
    ),
    "split_seed": (
        int,
        "Of the split of published data; with --seed also of who owns what; 0 if not given.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run, checked.

    Attributes
    ----------
    agents
        The number of agents; None for `default_agents`, and where the records have owners.
    """

    request: Request
    structure: StructureRequest
    agents: int | None
    default_agents: int


def method_options(
    methods: Mapping[str, Method] = METHODS, **defaults: Value
) -> dict[str, tuple[type, str]]:
    """Return type and help text of every option that some method of the library has.

    Parameters
    ----------
    methods
        Those that the command takes; of an option that none of them has the help text says so.
    defaults
        Where the command has another default than the table of methods.
    """
    options = {one.name: one for method in METHODS.values() for one in method.options}
    texts = {name: _by_default(name, methods, defaults) for name in options}
    return {name: (one.kind, f"{one.help} {texts[name]}") for name, one in options.items()}


def _by_default(name: str, methods: Mapping[str, Method], defaults: Mapping[str, Value]) -> str:
    """Return the methods that have an option, with its default, as a sentence."""
    having: dict[str, list[str]] = {}
    for title, method in methods.items():
        for option in method.options:
            if option.name == name:
                default = defaults.get(name, option.default)
                text = f"{default:g}" if isinstance(default, float) else str(default)
                if callable(default):
                    text = "derived from public facts"
                having.setdefault(text, []).append(title)
    if not having:
        return "Only of methods that this command does not take."
    parts = (f"{', '.join(titles)} (if not given: {text})" for text, titles in having.items())
    return f"Of {'; '.join(parts)}."


def rounds_help() -> str:
    """Return how many rounds the methods have by default."""
    usual = next(iter(METHODS.values())).rounds
    others = (f"; {m.rounds} for {name}" for name, m in METHODS.items() if m.rounds != usual)
    return f"If not given: {usual}{''.join(others)}; on a relay that many sweeps of the agents."


def all_options() -> dict[str, tuple[Any, str]]:
    """Return type and help text of every option of a run."""
    return {**_RUN, **method_options()}


_AS_GIVEN = ("relation", "split_seed", "rows_per_person", "agents_per_person")


def _observer(name: str | None, colluders: int | None) -> Observer:
    """Return the observer of that name, with so many colluders."""
    observer = observer_named("messages" if name is None else name)
    if colluders is None:
        return observer
    if not isinstance(observer, Sum):
        raise InputError("colluders are counted for the observer sum; add --observer sum")
    return Sum(colluders)


def run_options(given: Mapping[str, Any], *, rounds: int | None) -> RunOptions:
    """Return the options of a run, checked as far as possible without facts about the data."""
    for name in ("epsilon", "delta"):
        if given[name] is None:
            raise InputError(f"no {name} is given; a budget has no default, so add --{name}")
    algorithm = next(iter(METHODS)) if given["algorithm"] is None else given["algorithm"]
    methods, weights = methods_with(algorithm), given["regulariser"]
    structure = StructureRequest(
        name=given["structure"],
        weights=None if weights is None else Named.parse("regulariser", weights),
        graph=None if given["graph"] is None else str(given["graph"]),
    )
    names = ("loss", "regulariser", "constraint")
    parts: dict[str, Any] = {k: Named.parse(k, given[k]) for k in names if given[k] is not None}
    request = Request(
        epsilon=given["epsilon"],
        delta=given["delta"],
        algorithm=algorithm,
        class_weight=_by_label("class-weight", given["class_weight"]),
        prior=_by_label("prior", given["prior"]),
        clip=given["clip"],
        rounds=rounds,
        centre=given["centre"],
        evaluate=given["evaluate"],
        options={k: given[k] for k in method_options() if given[k] is not None},
        network=NetworkRequest(
            **{name: given[name] for name in ("network", "walk", "cap", "exchanges")}
        ),
        methods=methods,
        observer=_observer(given["observer"], given["colluders"]),
        **{k: given[k] for k in _AS_GIVEN if given[k] is not None},
        **parts,
    )
    structure.check(algorithm, request.method)
    if structure.name is not None and given["constraint"] not in {None, "none"}:
        raise InputError("a structure comes without a constraint; leave the constraint out")
    if given["agents"] is not None:
        checks.at_least("agents", given["agents"], 1)
    return RunOptions(
        request=request,
        structure=structure,
        agents=given["agents"],
        default_agents=DEFAULT_AGENTS if structure.name is None else 1,
    )


def _by_label(option: str, given: list[str] | None) -> dict[str, float] | None:
    """Return the numbers by label that texts such as yes=0.1 say; None if there are no texts."""
    if not given:
        return None
    numbers: dict[str, float] = {}
    for text in given:
        label, sign, number = text.rpartition("=")  # a label may have an equals sign, too
        if label in numbers:
            raise InputError(f"--{option} is given twice for {label!r}; give it once")
        try:
            numbers[label] = float(number) if sign else math.nan
        except ValueError:
            numbers[label] = math.nan
        if math.isnan(numbers[label]):
            raise InputError(
                f"--{option} is {text!r}; give a label and a number, as in --{option} yes=0.5"
            )
    return numbers


def methods_with(name: str) -> Mapping[str, Method]:
    """Return the table of methods, with that of `name` added if it is a `module:Class`."""
    if ":" not in name:
        return METHODS
    target, factory = _attribute(name), factory_named(name)
    said = getattr(target, "network", None)  # a function says it: what it returns is not known yet
    network: Literal["relay", "gossip"] | None = said if said in ("relay", "gossip") else None
    if isinstance(target, type) and issubclass(target, RelayAlgorithm):
        network = "relay"
    elif isinstance(target, type) and issubclass(target, GossipAlgorithm):
        network = "gossip"
    method = Method(
        build=lambda setting: _composition(factory, setting),
        summary="a method of your own",
        network=network,
    )
    return MappingProxyType({**METHODS, name: method})


def factory_named(name: str) -> Callable[[Problem], Algorithm | Composition]:
    """Return the function or class that `module:Class` names, which builds an algorithm.

    Any exception that it raises becomes an `InputError` of one line.

    Raises
    ------
    InputError
        If the module cannot be imported, or holds nothing of that name that can be called.
    """
    target = _attribute(name)

    @functools.wraps(target, updated=())
    def factory(problem: Problem) -> Algorithm | Composition:
        try:
            result = target(problem)
        except Exception as error:  # of the user's code, whatever it is
            raise InputError(
                f"algorithm {name!r}: making it of a problem failed ({_in_a_line(error)}); it is "
                "called with the problem alone"
            ) from error
        if not isinstance(result, Algorithm | Composition):
            raise InputError(
                f"algorithm {name!r} makes a {type(result).__name__} of a problem; it must make "
                "an Algorithm, or a Composition of an algorithm and its oracles"
            )
        return result

    return factory


def _attribute(name: str) -> Callable[[Problem], Any]:
    module, _, attribute = name.partition(":")
    target: Callable[[Problem], Any] | None = getattr(_imported(name, module), attribute, None)
    if not callable(target):
        raise InputError(
            f"algorithm {name!r}: {module} has no class or function {attribute!r}; name one that "
            "makes an algorithm of a problem"
        )
    return target


def _imported(name: str, module: str) -> ModuleType:
    if os.getcwd() not in sys.path:  # as python -m does
        sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"algorithm {name!r}: {module!r} is no name of a module")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"algorithm {name!r}: there is no module {error.name!r}; run where it can be imported"
        ) from error
    except Exception as error:  # of the module, whatever it is
        raise InputError(
            f"algorithm {name!r}: importing {module} failed ({_in_a_line(error)}); mend the module"
        ) from error


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _composition(
    factory: Callable[[Problem], Algorithm | Composition], setting: Setting
) -> Composition:
    """Return the algorithm that the factory builds, with the library's gradient as its question."""
    result = factory(setting.problem)
    if isinstance(result, Composition):
        return result
    return Composition(result, (Gradient(setting.problem.loss, setting.clip),))
