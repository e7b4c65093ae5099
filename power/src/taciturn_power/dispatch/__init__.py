"""The cheapest dispatch from demands that are asked for once: of one time, or of every step."""
