"""The options of a run, as a request and the methods declare them, and their parsing.

A method, loss, regulariser or set of the user is named `module:Class`.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import wraps
from types import MappingProxyType
from typing import Any

from taciturn import checks
from taciturn.algorithms import (
    COUNTS,
    METHODS,
    Algorithm,
    Composition,
    Method,
    Value,
    numbers_of,
)
from taciturn.cli.console import Option
from taciturn.errors import InputError
from taciturn.features import CELLS
from taciturn.kernel.privacy import Observer, Sum
from taciturn.names import observer_named
from taciturn.problems import Named, Problem, register
from taciturn.training import SIMULATED_AGENTS, Division, NetworkRequest, Request, StructureRequest
from taciturn.training.request import METHOD, PRIVACY


def request_options() -> dict[str, Option]:
    """Return the options that a request declares, by name (`taciturn.training.request.option`)."""
    found = {
        one.name: Option(one.metadata["kind"], one.metadata["help"], one.metadata["group"])
        for kind in (Request, Division, StructureRequest, NetworkRequest)
        for one in fields(kind)
        if one.metadata
    }
    first = ("epsilon", "delta", "agents", "rounds", "features", "evaluate")
    colluders = Option(
        int, "With --observer sum: the largest number of colluding agents. [default: 1]", PRIVACY
    )
    return {name: found[name] for name in first} | found | {"colluders": colluders}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The checked options of a run."""

    request: Request
    structure: StructureRequest
    agents: int | None

    def default_agents(self, *, published: bool) -> int:
        """Return how many agents hold records without owners.

        One holds a table of the user's. Published records are dealt to simulated agents, except
        those of a structured problem.
        """
        return SIMULATED_AGENTS if published and self.structure.structure is None else 1

    def division(self, *, published: bool) -> Division:
        """Return how records are to be divided."""
        default = self.default_agents(published=published)
        return Division.of_request(self.request, self.agents, default=default)


def method_options(methods: Mapping[str, Method] = METHODS, **defaults: Value) -> dict[str, Option]:
    """Return every option that a method of the library has.

    The help names those of `methods` that have it, with its default, which the command may change.
    """
    options = {one.name: one for method in METHODS.values() for one in method.options}
    having: dict[str, dict[str, list[str]]] = {name: {} for name in options}
    for title, method in methods.items():
        for option in method.options:
            default = defaults.get(option.name, option.default)
            text = f"{default:g}" if isinstance(default, float) else str(default)
            text = "from public facts" if callable(default) or default is None else text
            having[option.name].setdefault(text, []).append(title)
    texts = dict.fromkeys(options, "No method of this command has it.")
    for name, found in having.items():
        users = ", ".join(title for titles in found.values() for title in titles)
        values = "; ".join(
            text if len(found) == 1 else f"{text} for {', '.join(titles)}"
            for text, titles in found.items()
        )
        texts[name] = f"For {users}. [default: {values}]" if found else texts[name]
    return {
        name: Option(one.kind, f"{one.help} {texts[name]}", METHOD) for name, one in options.items()
    }


def all_options() -> dict[str, Option]:
    """Return every option of a run."""
    return {**request_options(), **method_options()}


_AS_GIVEN = (
    "epsilon", "rounds", "epochs", "clip", "features", "evaluate", "relation", "split_seed",
    "rows_per_person", "agents_per_person", "increasing", "decreasing",
)  # fmt: skip


def _observer(name: str | None, colluders: int | None) -> Observer:
    """Return the observer of that name, with so many colluders."""
    observer = observer_named("messages" if name is None else name)
    if colluders is None:
        return observer
    if not isinstance(observer, Sum):
        raise InputError("colluders are counted for the observer sum; add --observer sum")
    return Sum(colluders)


def run_options(
    given: Mapping[str, Any],
    *,
    methods_of: Callable[[str], Mapping[str, Method]] | None = None,
) -> RunOptions:
    """Return the options of a run, checked as far as possible without facts about the data.

    `methods_of`: returns the table of methods, including the named one; by default `methods_with`.
    """
    each = given.get("agent_epsilons")
    if each is not None:
        each = numbers_of("agent-epsilons", each)
        given = {**given, "epsilon": max(each) if given["epsilon"] is None else given["epsilon"]}
    for name in ("epsilon", "delta"):
        needless = name == "delta" and given["epsilon"] == math.inf
        if given[name] is None and not needless:
            raise InputError(f"no {name} is given; a budget has no default: add --{name}")
    if given["algorithm"] == COUNTS or (given["features"] or "").startswith(CELLS):
        raise InputError("counts are no model, and cells no features of one; use taciturn count")
    algorithm = next(iter(METHODS)) if given["algorithm"] is None else given["algorithm"]
    methods, weights = (methods_of or methods_with)(algorithm), given["regulariser"]
    structure = StructureRequest(
        structure=given["structure"],
        weights=None if weights is None else Named.parse("regulariser", weights),
        graph=None if given["graph"] is None else str(given["graph"]),
    )
    import_own_parts(given)
    names = _PARTS
    parts: dict[str, Any] = {k: Named.parse(k, given[k]) for k in names if given[k] is not None}
    request = Request(
        algorithm=algorithm,
        class_weight=_by_label("class-weight", given["class_weight"]),
        prior=_by_label("prior", given["prior"]),
        centre=given["centre"],
        options={k: given[k] for k in method_options() if given[k] is not None},
        network=NetworkRequest(
            **{name: given[name] for name in ("network", "walk", "cap", "exchanges")}
        ),
        methods=methods,
        agent_epsilons=each,
        observer=_observer(given["observer"], given["colluders"]),
        delta=checks.delta_for(given["epsilon"], given["delta"]),
        **{k: given[k] for k in _AS_GIVEN if given[k] is not None},
        **parts,
    )
    structure.check(request.algorithm, request.method)
    if structure.structure is not None and given["constraint"] not in {None, "none"}:
        raise InputError("a structure cannot be combined with a constraint; leave one out")
    if given["agents"] is not None:
        checks.at_least("agents", given["agents"], 1)
    return RunOptions(
        request=request,
        structure=structure,
        agents=given["agents"],
    )


def _by_label(option: str, given: list[str] | None) -> dict[str, float] | None:
    """Return the numbers by label that texts such as yes=0.1 state; None without texts."""
    if not given:
        return None
    numbers: dict[str, float] = {}
    for text in given:
        label, sign, number = text.rpartition("=")  # a label may have an equals sign, too
        if label in numbers:
            raise InputError(f"--{option} is given twice for {label!r}; give it once")
        numbers[label] = math.nan
        with suppress(ValueError):
            numbers[label] = float(number) if sign else math.nan
        if math.isnan(numbers[label]):
            raise InputError(
                f"--{option} is {text!r}; give a label and a number, as in --{option} yes=0.5"
            )
    return numbers


_PARTS = ("loss", "regulariser", "constraint")


def import_own_parts(given: Mapping[str, Any]) -> None:
    """Import the loss, regulariser and constraint that are named `module:Class`."""
    for what in _PARTS:
        text = given.get(what)
        if text is not None and Named.is_custom(text):
            name = Named.parse(what, text).name
            found = _imported(name, what)
            if not isinstance(found, type):
                raise InputError(f"{what} {name!r} is no class; name a class")
            register(found)


def methods_with(name: str) -> Mapping[str, Method]:
    """Return the table of methods, with that of `name` added if it is a `module:Class`."""
    if ":" not in name:
        return METHODS
    return MappingProxyType({**METHODS, name: Method.of(factory_named(name))})


def factory_named(name: str) -> Callable[[Problem], Algorithm | Composition]:
    """Return the function or class that `module:Class` names, which builds an algorithm.

    `InputError` if the module cannot be imported or has no callable of that name, and in place of
    any exception that the callable raises.
    """
    target = _imported(name)

    @wraps(target, updated=())
    def factory(problem: Problem) -> Algorithm | Composition:
        try:
            result = target(problem)
        except Exception as error:  # of the user's code, whatever it is
            raise InputError(
                f"algorithm {name!r}: constructing it from a problem failed ({in_a_line(error)}); "
                "it is called with the problem alone"
            ) from error
        if not isinstance(result, Algorithm | Composition):
            raise InputError(
                f"algorithm {name!r} returns a {type(result).__name__} for a problem; it must "
                "return an Algorithm, or a Composition of an algorithm and its oracles"
            )
        return result

    return factory


def _imported(name: str, what: str = "algorithm") -> Callable[..., Any]:
    """Return the object `module:name`; the working folder is searched, as by python -m."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"{what} {name!r}: {module!r} is not a module name")
    try:
        target = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{what} {name!r}: there is no module {error.name!r}; run where it can be imported"
        ) from error
    except Exception as error:  # of the module, whatever it is
        raise InputError(
            f"{what} {name!r}: importing {module} failed ({in_a_line(error)}); correct the module"
        ) from error
    if not callable(target):
        raise InputError(
            f"{what} {name!r}: {module} has no class or function {attribute!r}; name one that "
            f"constructs {'an' if what == 'algorithm' else 'a'} {what}"
        )
    found: Callable[..., Any] = target
    return found


def in_a_line(error: Exception) -> str:
    """Return class and message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
