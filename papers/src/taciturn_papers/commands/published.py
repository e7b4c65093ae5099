"""`taciturn published`: one run of a method as its paper prints it, without any privacy."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taciturn.cli import emit, interruptible, one_of, table
from taciturn.errors import InputError

if TYPE_CHECKING:
    from taciturn_papers.reproductions.wang2024.published import OneRun

_METHODS = ("dp-recal",)
_STAMP = (
    "A reproduction, no privacy: whoever reads the links of DP-RECAL as printed can compute "
    "gradients of the records (taciturn claims wang2024/thm4); its epsilon is only claimed."
)
_BOUNDS = ("largest", "ones", "zero")


def published(  # noqa: PLR0913 - one parameter per option
    *,
    method: Annotated[str, typer.Argument(help="dp-recal.", metavar="METHOD")],
    data: Annotated[
        str, typer.Argument(help="A data set, or FILE:TARGET; two classes.", metavar="DATA")
    ],
    loss: Annotated[str, typer.Option(help="linear or logistic.")] = "logistic",
    agents: Annotated[int, typer.Option(min=2, help="Number of agents.")] = 8,
    network: Annotated[str, typer.Option(help="Ring, path, star, complete, ...")] = "ring",
    walk: Annotated[str, typer.Option(help="random, balanced or cyclic.")] = "random",
    hops: Annotated[int, typer.Option(min=1, help="Hops of the token.")] = 2400,
    records: Annotated[int, typer.Option(min=2, help="The most training records.")] = 40_000,
    alpha: Annotated[float, typer.Option(help="Step sizes are ALPHA / (L + 1).")] = 1.8,
    steps: Annotated[
        str, typer.Option(help="common: L of the loss. local: L_i of each agent's records.")
    ] = "common",
    gamma: Annotated[float, typer.Option(help="Steps decay as gamma^t; 1: constant.")] = 1.0,
    epsilon: Annotated[float, typer.Option(help="What Theorem 4 claims; inf: no noise.")] = 12.0,
    delta: Annotated[float, typer.Option(help="Of the claim.")] = 1e-3,
    noise: Annotated[
        float | None, typer.Option(help="sigma_1, instead of --epsilon.", show_default=False)
    ] = None,
    bound: Annotated[
        str, typer.Option(help="c of Assumption 3: a number, or largest, ones or zero.")
    ] = "largest",
    decay: Annotated[float, typer.Option(help="R: the noise variance falls by it a visit.")] = 1.02,
    reading: Annotated[str, typer.Option(help="A, B or C of Algorithm 1.")] = "A",
    l1: Annotated[float, typer.Option(min=0, help="Weight of |x|_1.")] = 0.5,
    l2: Annotated[float, typer.Option(min=0, help="Weight of |x|^2 / 2.")] = 0.5,
    start: Annotated[float, typer.Option(help="Entries of the first x and y_i.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the walk and the noise.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Run DP-RECAL (Wang et al. 2024, Algorithm 1) as printed. It is not private."""
    one_of("METHOD", method, _METHODS)
    for name, value, known in (
        ("--loss", loss, ("linear", "logistic")),
        ("--walk", walk, ("random", "balanced", "cyclic")),
        ("--steps", steps, ("common", "local")), ("--reading", reading, ("A", "B", "C")),
    ):  # fmt: skip
        one_of(name, value, known)
    positive = {"--alpha": alpha, "--gamma": gamma, "--epsilon": epsilon, "--decay": decay}
    for name, number in positive.items():
        if not number > 0:
            raise InputError(f"{name} is {number:g}; give a number above 0")
    if not 0 < delta < 1:
        raise InputError(f"--delta is {delta:g}; give a number between 0 and 1")
    changes = {
        "agents": agents, "network": network, "walk": walk, "hops": hops, "records": records,
        "alpha": alpha, "steps": steps, "gamma": gamma, "equal": epsilon, "delta": delta,
        "variant": reading, "l1": l1, "l2": l2, "decays": (decay,),
    }  # fmt: skip
    options = {"bound": _bound(bound), "first_scale": noise, "start": start, "seed": seed}
    made = interruptible(lambda: _made(data, loss, changes, options))
    values = dataclasses.asdict(made)
    if json:
        from taciturn.report import strict  # noqa: PLC0415 - start-up

        emit(strict({"stamp": _STAMP, **values}))
        return
    rows = [(name.replace("_", " "), f"{value:.6g}") for name, value in values.items()]
    typer.echo(f"{_STAMP}\n\n" + table([("DP-RECAL as printed", ""), *rows]))


def _bound(text: str) -> str | float:
    if text in _BOUNDS:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"--bound is {text!r}; give a number above 0, or {', '.join(_BOUNDS)}")
    return value


def _made(data: str, loss: str, changes: dict[str, Any], options: dict[str, Any]) -> OneRun:
    from taciturn_papers.reproductions.wang2024 import FULL  # noqa: PLC0415 - start-up
    from taciturn_papers.reproductions.wang2024.published import one_run  # noqa: PLC0415

    return one_run(data, loss, dataclasses.replace(FULL, **changes), **options)
