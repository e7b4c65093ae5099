"""Write the JSON Schemas of proposals, which follow from their classes: python docs/schemas.py."""

from __future__ import annotations

import json
from pathlib import Path

from taciturn.documents import Document
from taciturn.training import Proposal
from taciturn.training.tuning import TuneProposal
from taciturn_federation.agreement import SignedProposal
from taciturn_power.dispatch.study import DayProposal, OpfProposal
from taciturn_power.state.study import GridProposal

SCHEMAS = Path(__file__).resolve().parent / "reference" / "schemas"
DOCUMENTS: tuple[type[Document], ...] = (
    Proposal, TuneProposal, SignedProposal, OpfProposal, DayProposal, GridProposal,
)  # fmt: skip


def schemas() -> dict[str, str]:
    """Return the schema of every kind of proposal as text, by the name of its file."""
    return {
        f"{kind.FORMAT.removeprefix('taciturn.')}-{kind.VERSION}.json": json.dumps(
            kind.schema_of_json(), indent=1
        )
        + "\n"
        for kind in DOCUMENTS
    }


if __name__ == "__main__":
    for name, text in schemas().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
