"""Attacks on transcripts: records from gradients, demand from messages.

An attack uses what an eavesdropper has, recorded answers, messages and public facts, and never
private state.
"""

from taciturn_papers.attacks.closed_form import RankOne, class_sums, outside, rank_one, span
from taciturn_papers.attacks.closeness import Closeness, closeness, nearest
from taciturn_papers.attacks.demand import Inference, infer_demand
from taciturn_papers.attacks.dlg import dlg
from taciturn_papers.attacks.gradinversion import gradinversion
from taciturn_papers.attacks.inverting_gradients import inverting_gradients
from taciturn_papers.attacks.matching import Guess, labels_shown
from taciturn_papers.attacks.seen import Seen, seen_on_links

__all__ = [
    "Closeness",
    "Guess",
    "Inference",
    "RankOne",
    "Seen",
    "class_sums",
    "closeness",
    "dlg",
    "gradinversion",
    "infer_demand",
    "inverting_gradients",
    "labels_shown",
    "nearest",
    "outside",
    "rank_one",
    "seen_on_links",
    "span",
]
