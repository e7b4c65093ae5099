"""How a site's answers leave it: as they are, or under masks where only their sum may be read."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from typing_extensions import override

from taciturn.budget import heads_folder
from taciturn.engine import Plan
from taciturn.errors import InputError, PrivacyError
from taciturn.typing import PyTree
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.envelope import NOTHING, BreachError, Envelope, Opener, chained, from_hex
from taciturn_federation.journal import Journal
from taciturn_federation.keys import read_private, write_private
from taciturn_federation.local import Local
from taciturn_federation.masks import KEY_BYTES, MaskKey, Masks, Participants, opened_total

# the last question counts its rounds anew, so it has streams of its own
_PART, _LAST = "training", "evaluation"


class Unmasked:
    """Answers leave as they are, as every message may be read.

    `keeps_state`: whether the journal keeps the method's state, from which an answer can be read.
    """

    keeps_state = True

    @property
    def accepted(self) -> Mapping[str, str]:
        """What the acceptance of a run says besides."""
        return {}

    def agree(self, accepted: Sequence[Envelope]) -> None:
        """Take note of the acceptances of all, with which the run starts."""

    def first_link(self) -> bytes:
        """Return the chain before anything was received, 32 bytes."""
        return NOTHING

    def masked(self, turn: int, transcript: bytes, body: bytes) -> bytes:
        """Return the body of a round's message as it may leave."""
        del turn, transcript
        return body

    def masked_last(self, agents: Sequence[int], transcript: bytes, body: bytes) -> bytes:
        """Return the body of the answer to the last question as it may leave."""
        del agents, transcript
        return body

    def forget(self) -> None:
        """Let go of what the end of the run makes useless."""


class Masked(Unmasked):
    """Answers leave under masks that cancel in the sum over all participants.

    **Guarantee.** What leaves is `Masks.masked`, under a key that was made for this run, is in no
    journal and is removed at its end. The set of participants is that of the first start, and is in
    the journal before anything is masked. Every round that the journal holds is closed to another
    message. Masks of the last question cancel among those who answer it, whose keys are in the
    names of its streams: they have none in common with the training's.
    """

    keeps_state = False

    def __init__(self, local: Local, journal: Journal, opener: Opener) -> None:
        self._journal, self._opener, self._agent = journal, opener, local.agent
        self._run = local.signed.digest
        self._file = key_file(self._run, local.agent)
        self._masks: Masks | None = None
        if journal.said(self._run, "mask") is None:
            journal.say(self._run, "mask", self._made().public)
        with suppress(OSError):  # when somebody last went on with the run
            os.utime(self._file)

    @property
    @override
    def accepted(self) -> Mapping[str, str]:
        return {"mask": self._public.hex()}

    @property
    def _public(self) -> bytes:
        return self._journal.said(self._run, "mask") or b""

    @override
    def agree(self, accepted: Sequence[Envelope]) -> None:
        participants = participants_of(self._opener, accepted)
        if participants.keys[self._agent] != self._public:
            raise BreachError(
                "the start of the run has another key of masks for this site than it made; another "
                "process has its signing key"
            )
        self._journal.say(self._run, "participants", b"".join(participants.keys))

    @override
    def first_link(self) -> bytes:
        return chained(NOTHING, self._participants().digest)

    @override
    def masked(self, turn: int, transcript: bytes, body: bytes) -> bytes:
        if self._masks is None:
            latest = self._journal.latest(self._run)
            after = -1 if latest is None else latest.round
            whole = self._participants()
            self._masks = Masks(self._key(), whole, self._agent, part=_PART, after=after)
        words = np.frombuffer(body, "<u8")
        return self._masks.masked(turn, transcript, words).astype("<u8").tobytes()

    @override
    def masked_last(self, agents: Sequence[int], transcript: bytes, body: bytes) -> bytes:
        whole, number = self._participants(), agents.index(self._agent)
        some = Participants(
            whole.run,
            tuple(whole.signers[agent] for agent in agents),
            tuple(whole.keys[agent] for agent in agents),
        )
        masks = Masks(self._key(), some, number, part=_LAST)
        return masks.masked(0, transcript, np.frombuffer(body, "<u8")).astype("<u8").tobytes()

    @override
    def forget(self) -> None:
        self._masks = None
        with suppress(OSError):  # the run has ended all the same
            self._file.unlink(missing_ok=True)

    def _participants(self) -> Participants:
        kept = self._journal.said(self._run, "participants") or b""
        keys = (kept[at : at + KEY_BYTES] for at in range(0, len(kept), KEY_BYTES))
        return Participants(self._opener.run, _signers(self._opener), tuple(keys))

    def _made(self) -> MaskKey:
        """Return the key of a run of which this journal has said nothing yet.

        One that is there was shown to nobody; or another journal has it, and `Journal.begin` will
        refuse the run. One that was half written is made anew.
        """
        with suppress(PrivacyError):
            return self._key()
        self._file.unlink(missing_ok=True)
        write_private(self._file, MaskKey.fresh().secret)
        return self._key()

    def _key(self) -> MaskKey:
        try:
            return MaskKey(read_private(self._file))
        except InputError:
            raise PrivacyError(
                f"the key of this run's masks ({self._file}) is not there, or others can read it; "
                "nothing more can be answered in this run, and another needs a new proposal"
            ) from None


def masking_of(local: Local, journal: Journal, opener: Opener) -> Unmasked:
    """Return how the answers of a site leave it; a key is made for a run that is new."""
    if not local.plan.program.summed:
        return Unmasked()
    masking, row = Masked(local, journal, opener), journal.run(local.signed.digest)
    if row is not None and row.phase not in ("accepted", "running"):
        masking.forget()  # a process that was killed at the end may have left it
    return masking


def first_link(plan: Plan, opener: Opener, accepted: Sequence[Envelope]) -> bytes:
    """Return the first transcript digest; with masks it names the participants."""
    if not plan.program.summed:
        return NOTHING
    return chained(NOTHING, participants_of(opener, accepted).digest)


def participants_of(opener: Opener, accepted: Sequence[Envelope]) -> Participants:
    """Return the participants of a run by the acceptances of all, which are in their order.

    Raises `BreachError` if the key of one is missing, none, or another's.
    """
    keys: list[bytes] = []
    for one in accepted:
        name = opener.names[one.sender]
        try:
            key = from_hex(one.values().get("mask"))
            MaskKey.fresh().shared_with(key)
        except InputError:
            raise BreachError(
                f"{name} accepted without a key of masks, which the observer sum needs; its owner "
                "should look at its version of taciturn"
            ) from None
        if key in keys:
            raise BreachError(
                f"{name} has the key of masks of {opener.names[keys.index(key)]}; each makes one"
            )
        keys.append(key)
    return Participants(opener.run, _signers(opener), tuple(keys))


def check_total(total: PyTree, participants: int) -> None:
    """Raise `BreachError` if the sum over all participants is none of answers: masks are in it."""
    try:
        opened_total(np.asarray(total).view(np.uint64), participants)
    except InputError as error:
        raise BreachError(str(error)) from None


def key_file(run: str, agent: int) -> Path:
    """Return the file of the secret half of a run's key: with the heads, and not the journal."""
    return heads_folder() / f"run-{run}-{agent}.masks"


def _signers(opener: Opener) -> tuple[bytes, ...]:
    agents = range(len(opener.names) - 1)  # all but the coordinator
    return tuple(opener.keys[agent].public_bytes_raw() for agent in agents)


# a machine may be off for a night in the middle of a run
_LEAST = 86_400.0


def remove_stale_keys(journal: Journal, *, now: float | None = None, but: str = "") -> list[str]:
    """Remove the keys of masks of runs that are over, and return a line for each.

    Over is a run that ended by the journal, or that was never accepted, and one that no process of
    this site has gone on with for a day and for twice the patience of its study: the coordinator
    gave it up long before, or is gone as well. The journal then says that it was abandoned, so it
    is not gone on with; in an account it stays charged as it stands there.

    The lock of the `journal` is held, so no process is at work on a run of it. `now` is in seconds
    since 1970; `but` the digest of a run that is about to go on.
    """
    now = time.time() if now is None else now
    lines = []
    for digest in journal.masked():
        file, row = _key_of(journal, digest), journal.run(digest)
        if digest == but or file is None:
            continue
        line = f"run {digest[:16]} is over; the key of its masks was removed"
        if row is not None and row.phase in {"accepted", "running"}:
            patience = SignedProposal.from_json(row.proposal).patience
            if now - file.stat().st_mtime <= max(_LEAST, 2 * patience):
                continue
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
