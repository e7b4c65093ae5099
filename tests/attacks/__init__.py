"""Attacks on the arithmetic of the library's own questions: `python -m tests.attacks`.

Certificates are proved for real numbers and hold for rounded ones. Every construction here makes
neighbouring data sets and queries at which floating point does worst, and measures how far they
move what is computed, over the bound that is certified.
"""
