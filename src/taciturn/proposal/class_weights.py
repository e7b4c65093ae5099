"""Weights of classes: what a person says of them, and as a part of a proposal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from taciturn import checks
from taciturn.errors import InputError
from taciturn.problems import ClassWeighted, Loss
from taciturn.proposal.data_facts import DataFacts

# sums of shares such as 1/3 that are written with a few digits
_ROUNDING = 0.01

WEIGHTS_ARE_PUBLIC = (
    "the class weights are public: they, or the shares of the classes that they are derived from, "
    "were known before anybody looked at the records"
)


def labels_of(data: DataFacts) -> tuple[str, ...] | None:
    """Return the labels in the order of their numbers; None for a regression."""
    if data.classes is None:
        return None
    if data.table is not None and data.table.target.values is not None:
        return data.table.target.values
    return ("-1", "1") if data.task == "binary" else tuple(map(str, range(data.classes)))


def weights_by_label(
    labels: tuple[Any, ...] | None,
    class_weight: Mapping[Any, float] | None,
    prior: Mapping[Any, float] | None,
) -> tuple[float, ...] | None:
    """Return the weight of each class, or None where no weights are asked for.

    Parameters
    ----------
    labels
        Of the classes, in their order; None for a regression.
    class_weight
        Weights in (0, 1] by label; a label that is not named has weight 1.
    prior
        The public share p_c of each class among the records, or in the world. The weight of class c
        is min(p) / p_c: the classes count alike, the rarest with weight 1.

    Raises
    ------
    InputError
        If both are given, one is no mapping, the target has no labels, a label is unknown, a number
        is not above 0, a share is missing, or the shares do not sum to 1. That weights are at most
        1 is checked by `ClassWeighted`.
    """
    if class_weight is None and prior is None:
        return None
    if class_weight is not None and prior is not None:
        raise InputError(
            "class weight and prior are both given; weights follow from either: use one"
        )
    if labels is None:
        raise InputError("class weights are for a target with labels; leave them out for numbers")
    if class_weight is not None:
        weights = _by_label("class weight", labels, class_weight)
        return tuple(weights.get(label, 1.0) for label in labels)
    return _balancing(labels, _by_label("prior", labels, prior))


def _by_label(what: str, labels: tuple[Any, ...], given: Any) -> dict[Any, float]:
    """Return the numbers above 0 that are given for some of the labels."""
    if not isinstance(given, Mapping):
        shown = repr(given) if isinstance(given, str) else f"a {type(given).__name__}"
        raise InputError(
            f"{what} is {shown}; it must be a number for each label. Weights that are counted from "
            "the records, as balanced ones are, are not public: give weights that were known "
            "before, or the public shares of the labels as prior"
        )
    unknown = [label for label in given if label not in labels]
    if unknown:
        raise InputError(
            f"{what} has {unknown[0]!r}, which is no label of the target; there are: "
            f"{', '.join(map(str, labels))}"
        )
    return {k: checks.positive(f"the {what} of {k!r}", number) for k, number in given.items()}


def _balancing(labels: tuple[Any, ...], prior: Mapping[Any, float]) -> tuple[float, ...]:
    missing = [label for label in labels if label not in prior]
    if missing:
        raise InputError(f"prior has no share of {missing[0]!r}; give one for each label")
    shares = [prior[label] for label in labels]
    if abs(math.fsum(shares) - 1) > _ROUNDING:
        raise InputError(
            f"prior has shares that sum to {math.fsum(shares):g}; the shares of all labels sum to 1"
        )
    return tuple(min(shares) / share for share in shares)


def weighted(loss: Loss, weights: tuple[float, ...] | None) -> Loss:
    """Return the loss with its class weights, if there are some."""
    return loss if weights is None else ClassWeighted(loss, weights)


def weights_text(labels: tuple[str, ...], weights: tuple[float, ...]) -> str:
    """Return the weights by label, as people read them.

    Examples
    --------
    >>> weights_text(("no", "yes"), (0.1, 1.0))
    'no: 0.1, yes: 1'
    """
    return ", ".join(f"{label}: {weight:g}" for label, weight in zip(labels, weights, strict=True))


def weight_conditions(weights: tuple[float, ...] | None) -> tuple[str, ...]:
    """Return the condition that class weights add to a certificate."""
    return () if weights is None else (WEIGHTS_ARE_PUBLIC,)
