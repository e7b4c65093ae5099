"""An account as text and as JSON values: its guarantee, its runs, and what is left."""

from __future__ import annotations

import math
from typing import Any

from taciturn.budget import Balance, ChargedRun, Guarantee, State, Total
from taciturn.budget.charge import totals
from taciturn.engine import Charged

NOWHERE = "This run was charged nowhere (see taciturn budget open)."
FORMAT = "taciturn account 1"
_WIDTH = 40


def promise(guarantee: Guarantee) -> str:
    """Return the guarantee as text."""
    return f"epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}"


def account_text(state: State) -> str:
    """Return an account as text: its guarantee, and a line for each run."""
    caps, terms = state.caps, state.terms
    others = "nothing for answers that are not Gaussian on all records"
    if caps.divergence > 0:
        others = f"divergence {caps.divergence:.6g} of order {caps.order}"
    lines = [
        f"Account {state.name}: {promise(state.guarantee)}, for all of its runs together",
        f"Relation {terms.relation}, unit {terms.unit}, observer {terms.observer_text}; opened "
        f"{state.opened}",
        f"Caps: mu {math.sqrt(caps.squares):.6g}; {others}; {caps.values:.3g} numbers",
        *(f"{change.when}  {change.what}" for change in state.changes),
        "",
    ]
    return "\n".join([*lines, *_rows(state), "", f"Left: {state.left_text()}"])


def _rows(state: State) -> list[str]:
    """Return a line for each run, with the epsilon left after it at the current caps."""
    rows = [("when", "what", "proposal", "cost", "end", "epsilon left")]
    caps, ends = state.caps, {"reserved": "not begun", "opened": "end unknown"}
    sums = totals(state.terms, caps.order, [run.charge for run in state.charged])
    after = dict(zip((run.run for run in state.charged), sums, strict=True))
    for run in state.runs:
        purpose, total, left = run.purpose, after.get(run.run), ""
        if total is not None:
            apart = Total(
                max(0.0, caps.squares - total.squares),
                max(0.0, caps.divergence - total.divergence),
                max(0, caps.values - total.values),
            )
            left = f"{math.floor(state.epsilon_left(apart) * 1e4) / 1e4:.4f}"
        plan, cost = (purpose.proposal or purpose.plan)[:12], cost_text(state, run)
        end = ends.get(run.status, run.status)
        rows.append((run.when, purpose.what, plan, cost, end, left))
    if len(rows) == 1:
        return ["No run was charged yet"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def cost_text(state: State, run: ChargedRun) -> str:
    """Return what a run costs as text."""
    cost = state.cost(run)
    parts = [f"mu {math.sqrt(cost.squares):.4g}"] if cost.squares > 0 else []
    parts += [f"divergence {cost.divergence:.4g}"] if cost.divergence > 0 else []
    return ", ".join(parts) or "nothing"


def shares(state: Balance) -> list[tuple[str, float]]:
    """Return the share of each cap that is charged."""
    total, caps = state.total, state.caps
    shares = [("Gaussian", total.squares / caps.squares)]
    if caps.divergence > 0:
        shares.append(("curves", total.divergence / caps.divergence))
    return [*shares, ("numbers", total.values / caps.values)]


def bar(state: State) -> str:
    """Return a bar of characters for each cap: the share of it that is charged."""
    lines = []
    for name, share in shares(state):
        filled = min(_WIDTH, math.ceil(share * _WIDTH))
        drawn = "#" * filled + "." * (_WIDTH - filled)
        lines.append(f"{name:<9}[{drawn}] {math.ceil(share * 1000) / 10:.1f} % charged")
    return "\n".join(lines)


def export(state: State, *, entries: bool) -> dict[str, Any]:
    """Return an account as JSON values, with the ledger `entries` of every run if requested."""
    caps, terms = state.caps, state.terms
    return {
        "format": FORMAT,
        "account": state.name,
        "id": state.identity,
        "opened": state.opened,
        "curves": state.guarantee.curves,
        **{k: getattr(terms, k) for k in ("relation", "unit", "observer", "colluders")},
        "caps": {
            "mu": math.sqrt(caps.squares),
            **{k: getattr(caps, k) for k in ("order", "divergence", "values")},
        },
        **_balance(state),
        "changes": [vars(change) for change in state.changes],
        "runs": [_run(state, run, entries=entries) for run in state.runs],
    }


def _balance(balance: Balance) -> dict[str, Any]:
    def sums(total: Total) -> dict[str, float]:
        mu = math.sqrt(total.squares)
        return {"mu": mu, "divergence": total.divergence, "values": total.values}

    return {
        "epsilon": balance.guarantee.epsilon,
        "delta": balance.guarantee.delta,
        "charged": sums(balance.total),
        "left": {**sums(balance.left), "epsilon": balance.epsilon_left()},
        "head": {"number": balance.last.number, "digest": balance.last.digest},
    }


def _run(state: State, run: ChargedRun, *, entries: bool) -> dict[str, Any]:
    cost = state.cost(run)
    values: dict[str, Any] = {k: getattr(run, k) for k in ("run", "number", "when", "status")}
    values |= run.purpose.to_dict()
    values["cost"] = {"mu": math.sqrt(cost.squares), "divergence": cost.divergence}
    if entries:
        values |= {"charge": run.charge.to_dict(), "files": list(run.files)}
    return values


def charged_line(charged: Charged | None) -> str:
    """Return one line: the account to which a run was charged, and what is left in it."""
    if charged is None:
        return f"Account: none. {NOWHERE}"
    after = charged.after
    return (
        f"Account: {charged.account} ({promise(after.guarantee)} for all of its runs); left before "
        f"{charged.before.left_text()}, left after {after.left_text()}"
    )


def charged_values(charged: Charged | None) -> dict[str, Any] | None:
    """Return the same as JSON values; None if no account was charged."""
    if charged is None:
        return None
    return {
        "account": charged.account,
        "run": charged.run,
        "before": {**_balance(charged.before), "runs": charged.before.sums.runs},
        "after": {**_balance(charged.after), "runs": charged.after.sums.runs},
    }
