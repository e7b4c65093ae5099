"""Subjects of a run: who says what, and who may."""

from __future__ import annotations

import re
from dataclasses import dataclass

from taciturn.errors import InputError

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_token(what: str, text: str) -> str:
    """Return a name that may stand in a subject and in a file name; else raise `InputError`."""
    if not _TOKEN.fullmatch(text):
        raise InputError(
            f"{text!r} is no name of a {what}; use up to 64 letters, digits, hyphens and "
            "underscores, the first a letter or a digit"
        )
    return text


@dataclass(frozen=True)
class Subjects:
    """The subjects of one run, all below `STUDY.RUN`.

    Attributes
    ----------
    study
        Its name.
    run
        The first 16 hexadecimal digits of the digest of the signed proposal.

    Examples
    --------
    >>> Subjects("diabetes", "0123456789abcdef").answer(3)
    'diabetes.0123456789abcdef.answer.3'
    """

    study: str
    run: str

    def __post_init__(self) -> None:
        check_token("study", self.study)
        check_token("run", self.run)

    def _of(self, *parts: object) -> str:
        return ".".join([self.study, self.run, *map(str, parts)])

    @property
    def proposal(self) -> str:
        """Where the coordinator says what concerns all: proposal, start, heads, end."""
        return self._of("proposal")

    def public(self, turn: int | str = "*") -> str:
        """Return where the coordinator publishes what the agents of a star hear in a round."""
        return self._of("public", turn)

    def ask(self, agent: int | str = "*") -> str:
        """Return where an agent says what it lacks."""
        return self._of("ask", agent)

    def answer(self, agent: int | str = "*") -> str:
        """Return where an agent of a star sends its messages."""
        return self._of("answer", agent)

    def edge(self, sender: int | str = "*", receiver: int | str = "*") -> str:
        """Return where an agent speaks to a neighbour."""
        return self._of("edge", sender, receiver)

    def state(self, agent: int | str = "*") -> str:
        """Return where an agent says how it stands, and what it releases."""
        return self._of("state", agent)

    def agent_writes(self, agent: int, neighbours: tuple[int, ...]) -> tuple[str, ...]:
        """Return all that agent number `agent` may write; on a star it has no neighbours."""
        own = (self.ask(agent), self.answer(agent), self.state(agent))
        return own + tuple(self.edge(agent, other) for other in neighbours)

    def agent_hears(self, agent: int) -> tuple[str, ...]:
        """Return all that agent number `agent` may listen to."""
        everyone = (self.proposal, self.public(), self.ask(), self.state())
        return (*everyone, self.edge(receiver=agent))

    def coordinator_writes(self) -> tuple[str, ...]:
        """Return all that the coordinator may write."""
        return (self.proposal, self.public())

    def coordinator_hears(self) -> tuple[str, ...]:
        """Return all that the coordinator may listen to: no edge of a network."""
        return (self.ask(), self.answer(), self.state())

    def sender(self, subject: str) -> int | None:
        """Return the agent whose subject this is; None for the coordinator.

        Raises
        ------
        InputError
            If it is no subject of this run.
        """
        front, parts = f"{self.study}.{self.run}.", subject.split(".")[2:]
        known = {"proposal": 1, "public": 2, "ask": 2, "answer": 2, "edge": 3, "state": 2}
        numbers = all(part.isdecimal() and len(part) < 10 for part in parts[1:])
        if not subject.startswith(front) or known.get(parts[0]) != len(parts) or not numbers:
            raise InputError(f"{subject[:100]!r} is no subject of the run {self.study}.{self.run}")
        return None if parts[0] in {"proposal", "public"} else int(parts[1])


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one that a pattern stands for.

    Examples
    --------
    >>> matches("a.b.answer.*", "a.b.answer.3"), matches("a.b.answer.*", "a.b.answer")
    (True, False)
    """
    wanted, given = pattern.split("."), subject.split(".")
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given))  # noqa: B905 - of one length
