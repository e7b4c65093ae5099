"""A day of demands, dispatched privately: budgets shared equally or by weight, smoothed or not.

`python -m bench.day [DRAWS]` prints a table in Markdown; `python -m bench.day FILE` writes the
series as CSV, for `tacit grid case118 --series FILE`.

The shape is public arithmetic: bus i of case118 has its published demand times g(h - l_i) at hour
h, with

    g(h) = 0.75 - 0.17 cos(2 pi (h - 4) / 24) - 0.08 cos(4 pi (h - 2) / 24)

(least at night, 0.52 at 2:30, a shoulder at 9:00, most in the evening, 0.94 at 18:30) and buses
that are up to an hour early or late, l_i = ((i mod 5) - 2) / 2.
"""
