"""`taciturn cost`: the cost of answers, or the noise that a budget requires."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from taciturn import checks
from taciturn.calibration import gaussian_multiplier, multiplier_for
from taciturn.cli.console import Json, emit, one_of
from taciturn.errors import InputError
from taciturn.kernel import privacy
from taciturn.names import relation_named

_MECHANISMS = ("gaussian", "laplace")
_RELATIONS = ("replace_one", "zero_out")
_MOST_EPSILON = 1e6


def cost(  # noqa: PLR0913, PLR0917 - one parameter per option
    mechanism: Annotated[str, typer.Argument(help="gaussian or laplace.", metavar="MECHANISM")],
    rounds: Annotated[int, typer.Option(help="Number of answers.")],
    delta: Annotated[float, typer.Option(help="Above 0 and below 1, for example 1e-5.")],
    multiplier: Annotated[
        float | None, typer.Option(help="Noise scale / sensitivity; give this or --epsilon.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Total budget, for the multiplier.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Rate of Poisson sampling of the records.")
    ] = None,
    relation: Annotated[str, typer.Option(help="zero_out or replace_one.")] = "zero_out",
    json: Json = False,
) -> None:
    """Convert a noise multiplier into a total epsilon, or a total into a multiplier."""
    one_of("MECHANISM", mechanism, _MECHANISMS)
    one_of("--relation", relation, _RELATIONS)
    checks.at_least("rounds", rounds, 1)
    checks.delta(delta)
    if sampling_rate is not None:
        checks.fraction("sampling-rate", sampling_rate)
    if (multiplier is None) == (epsilon is None):
        raise InputError("give either --multiplier or --epsilon; the other one is computed")
    answer = privacy.GaussianAnswer if mechanism == "gaussian" else privacy.LaplaceAnswer

    def event(multiplier: float) -> privacy.Event:
        one = answer(multiplier)
        return one if sampling_rate is None else privacy.Sampled(one, sampling_rate)

    known = relation_named(relation)
    if multiplier is None:
        total = checks.positive("epsilon", math.nan if epsilon is None else epsilon)
        if total > _MOST_EPSILON:
            raise InputError(
                f"epsilon {total:g} protects nothing; ask for at most {_MOST_EPSILON:g}"
            )
        if mechanism == "gaussian" and sampling_rate is None:
            multiplier = gaussian_multiplier(total, delta, rounds)
        else:
            multiplier = multiplier_for(
                event, rounds=rounds, epsilon=total, delta=delta, relation=known
            )
    spent = privacy.account([(event(multiplier), rounds)], delta=delta, relation=known)
    values = {
        "mechanism": mechanism,
        "multiplier": multiplier,
        "rounds": rounds,
        "sampling_rate": sampling_rate,
        "relation": relation,
        "epsilon": "infinity" if math.isinf(spent.epsilon) else spent.epsilon,
        "delta": delta,
        "mu": "infinity" if spent.mu is not None and math.isinf(spent.mu) else spent.mu,
    }
    if json:
        emit(values)
    else:
        typer.echo(_sentence(values))


def _sentence(values: dict[str, Any]) -> str:
    rate = values["sampling_rate"]
    batches = "" if rate is None else f" on Poisson batches of rate {rate:g}"
    mu = "none (the law is not exactly Gaussian)" if values["mu"] is None else _text(values["mu"])
    return (
        f"{values['rounds']} {values['mechanism']} answers{batches}\n"
        f"multiplier  {values['multiplier']:.6g} (noise scale / sensitivity)\n"
        f"epsilon     {_text(values['epsilon'])}\n"
        f"delta       {values['delta']:g}\n"
        f"mu          {mu}\n"
        f"relation    {values['relation']}"
    )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
