"""Benchmarks: `python -m bench`. Figures are ratios measured in one process, medians of repeats."""
