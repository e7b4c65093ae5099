"""What the paper says comes out, and what we compare beside it; decided by measured means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit_papers.reproductions.liu2022.figures import Part
from tacit_papers.reproductions.liu2022.methods import (
    Method,
    noisy_gradient,
    proximal,
    renyi,
    sadmm,
    vradmm,
)
from tacit_papers.reproductions.liu2022.settings import Kind, Setting
from tacit_papers.reproductions.ordering import Ordering, below

What = Literal["gap", "error"]
_WORDS = {"gap": "objective gap", "error": "test error"}
_FIGURES: tuple[tuple[str, Kind], ...] = (
    ("Figure 2", "fused"),
    ("Figure 3", "ridge"),
    ("Figure 4", "lasso"),
)
VR, SA = vradmm("published"), sadmm("published")
OUR_VR, OUR_SA, OURS = vradmm("public"), sadmm("public"), noisy_gradient()
SMOOTH, SHUFFLED = vradmm("published", 2.0), vradmm("published", 2.0, shuffled=True)
OUR_SMOOTH, OUR_SHUFFLED = vradmm("public", 2.0), vradmm("public", 2.0, shuffled=True)


@dataclass(frozen=True)
class Claim:
    """One method is better than another, in one figure and one measure."""

    figure: str
    kind: Kind
    what: What
    better: Method
    worse: Method
    whose: Literal["paper", "ours"]

    def decided(self, parts: list[Part], setting: Setting) -> Ordering:
        """Return the claim with the numbers that decide it, at every data set and budget."""
        sides = [
            (m.name, [getattr(s, self.what) for p in parts for s in p.scores[self.kind][m.name]])
            for m in (self.better, self.worse)
        ]
        places = [f"{part.name}, epsilon {e:g}" for part in parts for e in setting.budgets]
        claim = sentence(self.what, self.better, self.worse)
        return Ordering(self.figure, claim, below(sides[0], sides[1], places), self.whose)


def sentence(what: What, better: Method, worse: Method) -> str:
    """Return the claim in words."""
    return f"{_WORDS[what]}: {better.name} is better than {worse.name}"


def _both(figure: str, kind: Kind, better: Method, worse: Method) -> tuple[Claim, ...]:
    return tuple(Claim(figure, kind, what, better, worse, "paper") for what in ("gap", "error"))


def _ours(figure: str, kind: Kind, better: Method, worse: Method) -> Claim:
    return Claim(figure, kind, "gap", better, worse, "ours")


PAPERS_CLAIMS = (
    *_both("Figure 1", "fused", SMOOTH, VR),
    *_both("Figure 1", "fused", vradmm("published", 3.0), VR),
    *(claim for figure, kind in _FIGURES for claim in _both(figure, kind, VR, SA)),
    *_both("Figure 4", "lasso", VR, renyi("published")),
    *_both("Figure 4", "lasso", SA, renyi("published")),
    *_both("Figure 4", "lasso", sadmm("published", 2.0), renyi("published")),
)
OUR_CLAIMS = (
    *(_ours(figure, kind, OUR_SA, OUR_VR) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OUR_SA, VR) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OURS, OUR_SA) for figure, kind in _FIGURES),
    *(_ours(figure, kind, OURS, VR) for figure, kind in _FIGURES),
    _ours("Figure 1", "fused", SMOOTH, SHUFFLED),
    _ours("Figure 1, public steps", "fused", OUR_SMOOTH, OUR_VR),
    _ours("Figure 1, public steps", "fused", OUR_SMOOTH, OUR_SHUFFLED),
    _ours("Figure 4", "lasso", OUR_SA, sadmm("public", 2.0)),
    _ours("Figure 4", "lasso", OUR_SA, renyi("public")),
    _ours("Figure 4", "lasso", OUR_SA, proximal()),
)


def orderings(parts: list[Part], setting: Setting) -> tuple[Ordering, ...]:
    """Return the orderings of the paper, and ours, decided."""
    return tuple(claim.decided(parts, setting) for claim in (*PAPERS_CLAIMS, *OUR_CLAIMS))
