"""Wang et al. 2024: decentralised learning with a token, and what an eavesdropper makes of it."""

from tacit.reproductions.wang2024.images import images

__all__ = ["images"]
