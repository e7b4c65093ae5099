"""`--vault`: a user's method in a separate process; and that process.

python -m taciturn.cli.vault           reads requests on its input, answers on its output
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from io import BufferedIOBase
from types import MappingProxyType

from taciturn.algorithms import METHODS, Composition, Method
from taciturn.cli.options import in_a_line, methods_with
from taciturn.engine.elsewhere import Peer, composition_of, described, serve
from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.kernel.door import read_message, write_message
from taciturn.training import Proposal

MOST_REQUEST = 2**28  # bytes of a request, which may be a long proposal


def methods_elsewhere(name: str) -> Mapping[str, Method]:
    """Return the table of methods, with that of `name`, whose code a separate process imports.

    `InputError` if it is a method of the library, which may well be in this one, or its code cannot
    be imported.
    """
    if ":" not in name:
        raise InputError(
            f"--vault keeps code of your own away from the records, and {name} is the library's; "
            "leave --vault out, or name module:Class"
        )
    peer = Peer(__name__)
    network = peer.request("method", name)
    if network not in (None, "gossip", "relay"):
        raise InputError(f"{name} runs on no network that there is")

    @cache
    def built(text: str) -> Composition:
        proposal = Proposal.from_json(text)
        if proposal.budget.observer != "messages":
            raise InputError(
                "whether answers of a method add up is seen in its code, which this process does "
                "not import; with --vault use the observer messages"
            )
        return composition_of(peer, text, proposal.problem.loss)

    def elsewhere(proposal: Proposal) -> Composition:
        return built(proposal.to_json())

    def build(setting: object) -> Composition:
        raise InputError(f"{name} is built of {type(setting).__name__}s in a separate process")

    summary = "a method of your own"
    method = Method(build=build, summary=summary, network=network, elsewhere=elsewhere)
    return MappingProxyType({**METHODS, name: method})


def main() -> None:
    """Answer the requests of the process that opens the records, until there are no more.

    What the method prints goes to the errors' stream: the output is the pipe.
    """
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    served = _Served()
    while True:
        try:
            kind, values = read_message(pipes[0], MOST_REQUEST)
        except InputError:  # nobody is left to answer
            return
        try:
            served.answer(kind, values, pipes)
        except BrokenPipeError:
            return
        except Exception as error:  # of the method, whatever it is
            known = isinstance(error, InputError)
            line = str(error) if known else f"the method failed ({in_a_line(error)})"
            write_message(pipes[1], "error", line)


class _Served:
    """A method, and its plan of every proposal: defaults are found by several."""

    def __init__(self) -> None:
        self.methods: Mapping[str, Method] = {}
        self.plans: dict[str, Plan] = {}

    def answer(
        self, kind: str, values: object, pipes: tuple[BufferedIOBase, BufferedIOBase]
    ) -> None:
        """Answer a request."""
        if kind == "run" and isinstance(values, list):
            proposal, *keep = map(str, values)
            serve(self.plans[proposal], pipes, frozenset(keep))
            return
        text = str(values)
        if kind == "method":
            self.methods = methods_with(text)
            write_message(pipes[1], "reply", self.methods[text].network)
        else:
            self.plans[text] = Proposal.from_json(text).plan(self.methods)
            write_message(pipes[1], "reply", described(self.plans[text]))


if __name__ == "__main__":
    main()
