"""Methods of the user's own: `module:Class` in place of a name."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from tacit.algorithms import (
    METHODS,
    Algorithm,
    Composition,
    GossipAlgorithm,
    Method,
    RelayAlgorithm,
    Setting,
)
from tacit.errors import InputError
from tacit.oracles import Gradient
from tacit.problems import Problem


def with_own(name: str) -> Mapping[str, Method]:
    """Return the table of methods, with that of a `module:Class` beside them if it is named so.

    Raises
    ------
    InputError
        If the module cannot be imported, or holds nothing of that name that can be called.
    """
    if ":" not in name:
        return METHODS
    target, maker = _attribute(name), maker_named(name)
    base = target if isinstance(target, type) else object
    network: Literal["relay", "gossip"] | None = None
    if issubclass(base, RelayAlgorithm):
        network = "relay"
    elif issubclass(base, GossipAlgorithm):
        network = "gossip"
    method = Method(
        build=lambda setting: _composed(maker, setting),
        summary="a method of your own",
        network=network,
    )
    return MappingProxyType({**METHODS, name: method})


def maker_named(name: str) -> Callable[[Problem], Algorithm | Composition]:
    """Return what `module:Class` names: it makes an algorithm of a problem.

    Whatever goes wrong in it when it is called is an `InputError` of one line.

    Raises
    ------
    InputError
        If the module cannot be imported, or holds nothing of that name that can be called.
    """
    target = _attribute(name)

    @functools.wraps(target, updated=())
    def maker(problem: Problem) -> Algorithm | Composition:
        try:
            result = target(problem)
        except Exception as error:  # the user's own, whatever it is
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

    return maker


def _attribute(name: str) -> Callable[[Problem], Any]:
    module, _, attribute = name.partition(":")
    target: Callable[[Problem], Any] | None = getattr(_imported(name, module), attribute, None)
    if not callable(target):
        raise InputError(
            f"algorithm {name!r}: {module} has no class or function {attribute!r}; name one that "
            "makes an algorithm of a problem"
        )
    maker: Callable[[Problem], Any] = target
    return maker


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
    except Exception as error:  # the module's own, whatever it is
        raise InputError(
            f"algorithm {name!r}: importing {module} failed ({_in_a_line(error)}); mend the module"
        ) from error


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _composed(maker: Callable[[Problem], Algorithm | Composition], setting: Setting) -> Composition:
    """Return what the maker makes of the problem, the library's gradient as its question."""
    result = maker(setting.problem)
    if isinstance(result, Composition):
        return result
    return Composition(result, (Gradient(setting.problem.loss, setting.clip),))
