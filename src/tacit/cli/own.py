"""Methods of the user's own: `module:Class` in place of a name."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

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
        If there is no such module, or nothing of that name in it.
    """
    if ":" not in name:
        return METHODS
    maker = maker_named(name)
    kind = maker if isinstance(maker, type) else object
    network = None
    if issubclass(kind, RelayAlgorithm):
        network = "relay"
    elif issubclass(kind, GossipAlgorithm):
        network = "gossip"
    method = Method(
        build=lambda setting: _composed(name, maker, setting),
        summary="a method of your own",
        network=network,  # type: ignore[arg-type]
    )
    return MappingProxyType({**METHODS, name: method})


def maker_named(name: str) -> Callable[[Problem], Any]:
    """Return what `module:Class` names: it makes an algorithm of a problem.

    Raises
    ------
    InputError
        If there is no such module, or nothing of that name in it.
    """
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:  # as python -m does
        sys.path.insert(0, os.getcwd())
    try:
        found: Callable[[Problem], Any] = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise InputError(
            f"algorithm {name!r}: there is no module {error.name!r}; run where it can be imported"
        ) from error
    except AttributeError as error:
        raise InputError(f"algorithm {name!r}: {module} has no {attribute!r}") from error
    return found


def _composed(name: str, maker: Callable[[Problem], Any], setting: Setting) -> Composition:
    """Return what the maker makes of the problem, the library's gradient as its question."""
    result = maker(setting.problem)
    if isinstance(result, Composition):
        return result
    if not isinstance(result, Algorithm):
        raise InputError(
            f"algorithm {name!r} makes a {type(result).__name__} of a problem; it must make an "
            "Algorithm, or a Composition of an algorithm and its oracles"
        )
    return Composition(result, (Gradient(setting.problem.loss, setting.clip),))
