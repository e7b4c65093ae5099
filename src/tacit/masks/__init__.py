"""Masks of pairs of participants: words that look random alone and cancel in the sum over all."""

from tacit.masks.keys import KEY_BYTES, MaskKey
from tacit.masks.masks import Masks
from tacit.masks.participants import Participants
from tacit.masks.sums import opened, opened_total

__all__ = ["KEY_BYTES", "MaskKey", "Masks", "Participants", "opened", "opened_total"]
