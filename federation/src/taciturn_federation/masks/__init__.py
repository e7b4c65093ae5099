"""Masks of pairs of participants: words that look random alone and cancel in the sum over all."""

from taciturn_federation.masks.masks import (
    KEY_BYTES,
    MaskKey,
    Masks,
    Participants,
    opened,
    opened_total,
)

__all__ = ["KEY_BYTES", "MaskKey", "Masks", "Participants", "opened", "opened_total"]
