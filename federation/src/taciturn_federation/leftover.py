"""Secret keys of masks that no run needs any more, though no process saw its end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from taciturn.budget import heads_folder
from taciturn.errors import InputError
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.journal import Journal, RunRow
from taciturn_federation.keys import read_private
from taciturn_federation.masks import MaskKey

# a machine may be off for a night in the middle of a run
_LEAST = 86_400.0


def clear_masks(journal: Journal, *, now: float | None = None, but: str = "") -> list[str]:
    """Remove the keys of masks of runs that are over, and return a line for each.

    Over is a run that ended by the journal, or that was never accepted, and one that no process of
    this site has gone on with for a day and for twice the patience of its study: the coordinator
    gave it up long before, or is gone as well. The journal then says that it was abandoned, so it
    is not gone on with; in an account it stays charged as it stands there.

    Parameters
    ----------
    journal
        Of the site, whose lock is held: no process is at work on a run of it.
    now
        In seconds since 1970; None for the time of this machine.
    but
        The digest of a run that is about to go on.
    """
    now = time.time() if now is None else now
    lines = []
    for digest in journal.masked():
        file = _key_of(journal, digest)
        row = journal.run(digest)
        if digest == but or file is None or not _is_over(file, row, now):
            continue
        line = f"run {digest[:16]} is over; the key of its masks was removed"
        if row is not None and row.phase in {"accepted", "running"}:
            line = f"run {digest[:16]} was given up, for nobody went on with it here; the key of "
            line += "its masks was removed"
            journal.set_phase(digest, "abandoned", line=line)
        with suppress(OSError):
            file.unlink(missing_ok=True)
            lines.append(line)
    return lines


def _key_of(journal: Journal, digest: str) -> Path | None:
    """Return the file of this site's key; other sites of this machine may have one of the run."""
    public = journal.said(digest, "mask")
    for file in heads_folder().glob(f"run-{digest}-*.masks"):
        with suppress(InputError):
            if MaskKey(read_private(file)).public == public:
                return file
    return None


def _is_over(file: Path, row: RunRow | None, now: float) -> bool:
    if row is None or row.phase not in {"accepted", "running"}:
        return True
    patience = SignedProposal.from_json(row.proposal).patience
    return now - file.stat().st_mtime > max(_LEAST, 2 * patience)
