"""Claims of Huang et al. 2019: the instances, and their numbers from another source."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from taciturn_papers.as_published import consensus_bound, smooth_consensus_bound
from taciturn_papers.claims import huang2019_thm34 as thm34
from taciturn_papers_tests.claims.test_claims import exact

BOUNDS = {3: consensus_bound, 4: smooth_consensus_bound}


def test_a_bound_on_entries_spends_what_as_many_rounds_spend(decided):
    finding = decided("huang2019/thm1")
    assert finding.verdict == "holds with conditions"
    assert [row[2] for row in finding.rows] == [finding.rows[0][2]] * len(finding.rows)
    for entries, _, _, spent in finding.rows:
        assert spent == pytest.approx(exact(entries, 0.1, 1e-5), rel=1e-9)


def test_the_instance_meets_what_theorems_3_and_4_assume():
    """Slopes and curvatures are at most 1, the optimum is 1, and the noise is that of (14)."""
    w = np.linspace(-2_000, 2_000, 400_001)[:, None]
    slopes = np.gradient(thm34.losses(w), w[:, 0], axis=0)
    assert np.abs(slopes).max() <= 1
    assert np.diff(slopes, axis=0).min() > -1e-9
    assert np.diff(slopes, axis=0).max() <= 0.01 * (1 + 1e-6)
    found = minimize_scalar(lambda v: float(thm34.losses(np.full(3, v)).sum()), bracket=(0, 3))
    assert found.x == pytest.approx(1, abs=1e-4)
    sigma, rho_and_step = 2 * math.sqrt(2 * math.log(1.25e5)) / (100 * 0.1 * 7.0), 7.0
    assert thm34.FACTS.noise == pytest.approx(sigma * rho_and_step)


def test_the_runs_are_those_of_algorithm_3(monkeypatch):
    """Without noise, each step is found by minimising (8) itself."""
    facts = dataclasses.replace(thm34.FACTS, noise=0.0)
    monkeypatch.setattr(thm34, "FACTS", facts)
    rho, rounds, places = facts.rho, 6, [1.0, 1_001.0, -999.0]
    local, dual, public = [0.0] * 3, [0.0] * 3, 0.0
    sums, shared = [0.0] * 3, 0.0
    for k in range(1, rounds + 1):
        sums = [total + w for total, w in zip(sums, local, strict=True)]
        eta = 1 / math.sqrt(2 * k)
        moved = []
        for w, gamma, b in zip(local, dual, places, strict=True):
            slope = (w - b) / math.sqrt(1 + (w - b) ** 2)

            def approximate(v, w=w, gamma=gamma, slope=slope, public=public, eta=eta):
                v = v[0]
                step = slope * (v - w) - gamma * (v - public) + rho / 2 * (v - public) ** 2
                return step + (v - w) ** 2 / (2 * eta)

            moved.append(minimize(approximate, [w], tol=1e-12).x[0])
        local = moved
        public = float(np.mean(local)) - float(np.mean(dual)) / rho
        dual = [g - rho * (w - public) for g, w in zip(dual, local, strict=True)]
        shared += public
    at = np.array(sums) / rounds
    want = thm34.losses(at).sum() - thm34.losses(np.ones(3)).sum()
    want += facts.beta * np.abs(at - shared / rounds).sum()
    np.testing.assert_allclose(thm34.errors(3, rounds), want, rtol=1e-5)


@pytest.mark.parametrize("theorem", [3, 4])
def test_the_bound_fails_with_the_printed_steps_and_holds_with_a_constant_one(decided, theorem):
    finding = decided(f"huang2019/thm{theorem}")
    assert finding.verdict == "does not hold"
    rounds, error, deviation, bound, steady = finding.rows[1]
    assert bound == pytest.approx(BOUNDS[theorem](thm34.FACTS, int(rounds)))
    assert error > 3 * bound
    assert deviation < 0.1 * error
    assert steady < bound
    found = [np.mean(thm34.errors(theorem, t, constant=True)) for t in (50, 2_000)]
    allowed = [BOUNDS[theorem](thm34.FACTS, t) for t in (50, 2_000)]
    assert np.all(np.array(found) <= allowed)
