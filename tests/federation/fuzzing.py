"""Messages that know the grammar: right ones, of which one value is another."""

import json
import random

import numpy as np
from tests.federation.test_breaches import seal_of

from taciturn_federation.envelope import COORDINATOR, Kind

CONTROL = [kind for kind in Kind if kind < 16]
ARRAYS = [kind for kind in Kind if kind >= 16]
HOSTILE = (
    None, True, False, "", "x", "no\nyes\x1b[2J\u202e", [], {}, [[]], 0, 1, -1, 2**31, 2**63,
    -(10**30), 10**30, 10**401, 10**4000, 0.0, -0.0, 1.0, 0.5, 1e-320, 1e308, -1e308, "00" * 32,
    "0" * 63, "é", list(range(50)), {"kind": 6},
)  # fmt: skip
LITERALS = (
    "1" * 5000,
    "Infinity",
    "-Infinity",
    "NaN",
    "1e999",
    "[" * 3000,
    '{"a":' * 3000,
    "\xff",
    "",
)
NUMBERS = (0.0, -0.0, 1e9, 1e30, -1e100, 1e153, 1.2e154, 1e155, 1.7e308, np.inf, -np.inf, np.nan)


class Fuzzer:
    """Messages of one sender in a study, by kind."""

    def __init__(self, study, plan, seed):
        self.study, self.plan, self.random = study, plan, random.Random(seed)
        self.agents, self.turns = study.agents, plan.rounds
        run = study.signed.digest
        head = seal_of(study, 1).seal(Kind.HEAD, self.turns, b"").hex()
        self._heads = [head] * self.agents
        self._accepted = [
            seal_of(study, a).seal_values(Kind.ACCEPTANCE, 0, {"digest": run, "taciturn": "0"}).hex()
            for a in range(self.agents)
        ]

    def right(self, kind):
        """The values of a right message."""
        draw, run = self.random, self.study.signed.digest
        return {
            Kind.PROPOSAL: {},
            Kind.ACCEPTANCE: {"digest": run, "taciturn": "0.1.0", "mask": "09" * 32},
            Kind.START: {"acceptances": self._accepted},
            Kind.RESEND_REQUEST: {
                "kind": int(draw.choice((Kind.HEADS, *ARRAYS))),
                "sender": draw.choice((*range(self.agents), COORDINATOR)),
                "round": draw.randrange(self.turns + 1),
            },
            Kind.HEADS: {"heads": self._heads},
            Kind.HEAD: {},
            Kind.REFUSAL: {"line": "no room"},
            Kind.DONE: {"ending": draw.choice(("finished", "abandoned"))},
            Kind.END: {"line": "over", "public": "00" * 48},
            Kind.LEDGER_ENTRIES: {
                "kinds": [[[0, 0, 1.5, 0, 1.0, 0]], []],
                "rounds": [0] * self.turns,
            },
            Kind.PROGRESS: {},
        }[kind]

    def body(self, kind):
        """The bytes of a message, of which something is another as a rule."""
        if kind >= 16:
            return self._numbers()
        text = json.dumps(self._other(self.right(kind)))
        if self.random.random() < 0.2:  # of one value the text
            at = self.random.randrange(len(text))
            text = text[:at] + self.random.choice(LITERALS) + text[at + 1 :]
        return text.encode("latin-1", errors="replace")

    def _other(self, value):
        """A value of which one part is another: at any depth, missing, or one too many."""
        draw = self.random
        if draw.random() < 0.05 or not isinstance(value, (dict, list)) or not value:
            return draw.choice(HOSTILE) if draw.random() < 0.8 else value
        if isinstance(value, dict):
            name = draw.choice(list(value))
            if draw.random() < 0.1:
                return {key: one for key, one in value.items() if key != name}
            return {**value, name: self._other(value[name])}
        at = draw.randrange(len(value))
        if draw.random() < 0.1:
            return [*value, *value]
        return [*value[:at], self._other(value[at]), *value[at + 1 :]]

    def _numbers(self):
        draw, count = self.random, self.random.choice((0, 1, 5, 6, 6, 6, 7, 18))
        values = [draw.choice(NUMBERS) if draw.random() < 0.3 else draw.gauss(0, 1)
                  for _ in range(count)]  # fmt: skip
        content = np.array(values, "<f8").tobytes()
        return content + draw.randbytes(draw.choice((0, 0, 0, 1)))

    def turn(self):
        """The round that a message is about."""
        near = (*range(self.turns + 2), *range(self.turns + 2))
        return self.random.choice((*near, 2**31, 2**32 - 1))
