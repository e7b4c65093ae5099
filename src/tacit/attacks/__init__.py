"""Attacks on transcripts: pictures out of gradients; what agents on a network learn of another.

An attack here holds what an eavesdropper holds, recorded answers, messages and public facts, and
never private state.
"""

from tacit.attacks.affine import pairwise_mu_affine
from tacit.attacks.closed_form import RankOne, class_sums, outside, rank_one, span
from tacit.attacks.closeness import Closeness, closeness, nearest
from tacit.attacks.dlg import dlg
from tacit.attacks.gradinversion import gradinversion
from tacit.attacks.inverting_gradients import inverting_gradients
from tacit.attacks.matching import Guess, labels_shown
from tacit.attacks.pairwise import Pairwise, pairwise_mu
from tacit.attacks.seen import Seen, seen_on_links

__all__ = [
    "Closeness",
    "Guess",
    "Pairwise",
    "RankOne",
    "Seen",
    "class_sums",
    "closeness",
    "dlg",
    "gradinversion",
    "inverting_gradients",
    "labels_shown",
    "nearest",
    "outside",
    "pairwise_mu",
    "pairwise_mu_affine",
    "rank_one",
    "seen_on_links",
    "span",
]
