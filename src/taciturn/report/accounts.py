"""An account: its guarantee, its runs, what is left; as text and values."""

from __future__ import annotations

import math
from typing import Any

from taciturn.budget import Balance, Charge, ChargedRun, Guarantee, State, Total
from taciturn.budget.sums import totals
from taciturn.engine import Charged

NOWHERE = "This run was charged nowhere (see taciturn budget open)."
_WIDTH = 40


def promise(guarantee: Guarantee) -> str:
    """Return the guarantee as text."""
    return f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}"


def account_text(state: State) -> str:
    """Return an account as text: its guarantee, and a line for each run."""
    caps, terms = state.caps, state.terms
    lines = [
        f"Account {state.name}: {promise(state.guarantee)}, for all of its runs together",
        f"Relation {terms.relation}, unit {terms.unit}, observer {terms.observer_text}; opened "
        f"{state.opened}",
        f"Caps: mu {math.sqrt(caps.squares):.6g}"
        + (
            f"; divergence {caps.divergence:.6g} of order {caps.order}"
            if caps.divergence > 0
            else "; nothing for answers that are not Gaussian on all records"
        )
        + f"; {caps.values:.3g} numbers",
        *(f"{change.when}  {change.what}" for change in state.changes),
        "",
    ]
    return "\n".join([*lines, *_rows(state), "", f"Left: {state.left_text()}"])


def _rows(state: State) -> list[str]:
    rows = [("when", "what", "proposal", "cost", "end", "epsilon left")]
    after = dict(zip((run.run for run in state.charged), _lefts(state), strict=True))
    for run in state.runs:
        left = after.get(run.run)
        rows.append(
            (
                run.when,
                run.purpose.what,
                (run.purpose.proposal or run.purpose.plan)[:12],
                cost_text(state, run),
                _END[run.status],
                "" if left is None else f"{_down(state.epsilon_left(left)):.4f}",
            )
        )
    if len(rows) == 1:
        return ["No run was charged yet"]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _down(epsilon: float) -> float:
    return math.floor(epsilon * 1e4) / 1e4


_END = {
    "reserved": "not begun",
    "opened": "end unknown",
    "released": "released",
    "failed": "failed",
    "returned": "returned",
}


def cost_text(state: State, run: ChargedRun) -> str:
    """Return what a run costs as text."""
    cost = state.cost(run)
    parts = [f"mu {math.sqrt(cost.squares):.4g}"] if cost.squares > 0 else []
    parts += [f"divergence {cost.divergence:.4g}"] if cost.divergence > 0 else []
    return ", ".join(parts) or "nothing"


def _lefts(state: State) -> list[Total]:
    """Return what was left after each run that is charged, at the caps of today."""
    caps = state.caps
    charges: list[Charge] = [run.charge for run in state.charged]
    return [
        Total(
            max(0.0, caps.squares - total.squares),
            max(0.0, caps.divergence - total.divergence),
            max(0, caps.values - total.values),
        )
        for total in totals(state.terms, caps.order, charges)
    ]


def shares(state: Balance) -> list[tuple[str, float]]:
    """Return the share of each cap that is charged."""
    total, caps = state.total, state.caps
    shares = [("Gaussian", total.squares / caps.squares)]
    if caps.divergence > 0:
        shares.append(("curves", total.divergence / caps.divergence))
    return [*shares, ("numbers", total.values / caps.values)]


def bar(state: State) -> str:
    """Return a small picture in characters: how much of each cap is charged."""
    lines = []
    for name, share in shares(state):
        filled = min(_WIDTH, math.ceil(share * _WIDTH))
        drawn = "#" * filled + "." * (_WIDTH - filled)
        lines.append(f"{name:<9}[{drawn}] {math.ceil(share * 1000) / 10:.1f} % charged")
    return "\n".join(lines)


def export(state: State, *, entries: bool) -> dict[str, Any]:
    """Return an account as JSON-safe values, with the `entries` of every run if asked for."""
    caps = state.caps
    return {
        "account": state.name,
        "id": state.identity,
        "opened": state.opened,
        "curves": state.guarantee.curves,
        "relation": state.terms.relation,
        "unit": state.terms.unit,
        "observer": state.terms.observer,
        "colluders": state.terms.colluders,
        "caps": {
            "mu": math.sqrt(caps.squares),
            "order": caps.order,
            "divergence": caps.divergence,
            "values": caps.values,
        },
        **_balance(state),
        "changes": [vars(change) for change in state.changes],
        "runs": [_run(state, run, entries=entries) for run in state.runs],
    }


def _balance(balance: Balance) -> dict[str, Any]:
    return {
        "epsilon": balance.guarantee.epsilon,
        "delta": balance.guarantee.delta,
        "charged": _sums(balance.total),
        "left": {**_sums(balance.left), "epsilon": balance.epsilon_left()},
        "head": {"number": balance.last.number, "digest": balance.last.digest},
    }


def _sums(total: Total) -> dict[str, float]:
    mu = math.sqrt(total.squares)
    return {"mu": mu, "divergence": total.divergence, "values": total.values}


def _run(state: State, run: ChargedRun, *, entries: bool) -> dict[str, Any]:
    cost = state.cost(run)
    values: dict[str, Any] = {
        "run": run.run,
        "number": run.number,
        "when": run.when,
        "status": run.status,
        **{name: _finite(value) for name, value in vars(run.purpose).items()},
        "cost": {"mu": math.sqrt(cost.squares), "divergence": cost.divergence},
    }
    if entries:
        values |= {"charge": run.charge.to_dict(), "files": list(run.files)}
    return values


def _finite(value: Any) -> Any:
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def charged_line(charged: Charged | None) -> str:
    """Return one line about where a run was charged."""
    if charged is None:
        return f"Account: none. {NOWHERE}"
    after = charged.after
    return (
        f"Account: {charged.account} ({promise(after.guarantee)} for all of its runs); left before "
        f"{charged.before.left_text()}, left after {after.left_text()}"
    )


def charged_values(charged: Charged | None) -> dict[str, Any] | None:
    """Return the same as JSON-safe values; None if it was charged nowhere."""
    if charged is None:
        return None
    return {
        "account": charged.account,
        "run": charged.run,
        "before": {**_balance(charged.before), "runs": charged.before.sums.runs},
        "after": {**_balance(charged.after), "runs": charged.after.sums.runs},
    }
