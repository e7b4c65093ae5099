"""The published federated setting: records, budgets, calibration and the measure of noise."""

import dataclasses
import math

import numpy as np
import pytest

from taciturn_papers.claims.huang2019_thm2 import exact_epsilon
from taciturn_papers.reproductions.ryu2023 import federated
from taciturn_papers.reproductions.ryu2023.federated import Records, budget_of, noise_magnitude
from taciturn_papers.reproductions.ryu2023.settings import Learning, Trial

COUNTS = (3, 9, 8)
RUN = Learning("mnist", None, 3, 20, (1, 5), (0.5,), 2, 3, (0.1,), None, (2.0, 5.0, 1e4),
               record_norm=1.0)  # fmt: skip


def made_up(run=RUN):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((20, 4))
    x *= run.record_norm / np.linalg.norm(x, axis=1, keepdims=True)
    parts = np.split(np.arange(20), np.cumsum(COUNTS)[:-1])
    y = draw.integers(0, 3, 20)
    rows, labels = (tuple(each[part] for part in parts) for each in (x, y))
    return Records("made up", rows, labels, x, y, 3, 0.0)


@pytest.mark.parametrize("arm", ["ObjG", "OutG"])
def test_the_noise_is_the_papers_and_the_total_is_exact(arm):
    trial = Trial(arm, 5, 0.5)
    assert budget_of(RUN, trial).total == pytest.approx(exact_epsilon(100, 0.5, 1e-6), rel=1e-9)
    # Table 1 and (6.5): 2 ln(1.25/delta) (Delta/e)^2, Delta = 2 sqrt(2) / I for f_p
    sigma = math.sqrt(2 * math.log(1.25e6)) * 2 * math.sqrt(2) / 20 / 0.5
    step = 2 + 5 / 0.5 + np.sqrt(np.arange(1, 21))  # rho + 1/eta
    expected = 3 * 5 * sigma * math.sqrt(2 / math.pi) / (1 if arm == "ObjG" else step)
    np.testing.assert_allclose(noise_magnitude(RUN, made_up(), trial), expected * np.ones(20))


def test_a_record_that_is_replaced_moves_the_gradient_by_no_more_than_the_noise_is_made_for():
    """In both norms, at points where labels are certain; half the bound is exceeded."""
    one, draw = made_up(), np.random.default_rng(1)
    moves = []
    for _ in range(50):
        z = 50 * draw.standard_normal((4, 1, 3))
        other = [rows.copy() for rows in one.rows], [labels.copy() for labels in one.labels]
        other[0][0][0], other[1][0][0] = -one.rows[0][0], draw.integers(3)
        moved = dataclasses.replace(one, rows=tuple(other[0]), labels=tuple(other[1]))
        gap = federated.gradient(one, 0, z) - federated.gradient(moved, 0, z)
        moves.append((np.linalg.norm(gap), np.abs(gap).sum()))
    for place, arm in enumerate(("ObjG", "ObjL")):
        trial = Trial(arm, 1, 0.5)
        scale = federated.noise_scale(RUN, one, trial)
        sensitivity = scale / federated.multiplier(arm, 0.5, RUN.delta)
        largest = max(move[place] for move in moves)
        assert sensitivity / 2 < largest <= sensitivity


def test_laplace_arms_are_composed_by_the_accountant():
    trial = Trial("OutL", 5, 0.5)
    assert 10 < budget_of(RUN, trial).total <= 100 * 0.5
    assert math.isinf(budget_of(RUN, Trial("ObjL", 5, math.inf)).total)


def test_the_noise_of_a_run_has_the_scale_that_is_stated():
    one, trial = made_up(), Trial("ObjL", 1, 0.5)
    still = dataclasses.replace(one, rows=tuple(0 * rows for rows in one.rows))
    run = dataclasses.replace(RUN, rounds=1, box=(1e9,))
    found = next(federated.simulated(run, still, [trial], 500)).solutions
    c = federated.rho_of(run, trial)[0] + 1
    assert np.mean(np.abs(found)) * c == pytest.approx(
        federated.noise_scale(run, one, trial), rel=0.03
    )


def test_every_agent_has_a_set_of_its_own():
    run = dataclasses.replace(RUN, box=(1e-3, 0.1))
    done = list(federated.simulated(run, made_up(), [Trial("ObjG", 1, 0.5)], 3))[-1]
    widths = np.abs(done.solutions).max(axis=(1, 2, 3))
    assert widths[0] <= 1e-3 * (1 + 1e-6)
    assert widths[1] > 2e-3
    assert widths[2] <= 1e-3 * (1 + 1e-6)


def test_a_file_of_the_users_is_dealt_to_as_many_agents_as_asked(tmp_path):
    file = tmp_path / "mine.csv"
    rows = "\n".join(f"{i},{i % 7},{'yes' if i % 3 else 'no'}" for i in range(40))
    file.write_text(f"a,b,ill\n{rows}\n")
    run = dataclasses.replace(RUN, data=f"{file}:ill", agents=4, record_norm=0.5)
    one = federated.records(run)
    assert one.counts == (9, 9, 9, 9)
    assert (one.classes, len(one.test_labels)) == (2, 4)
    assert {0, 1} == {*np.concatenate(one.labels)}
    assert max(np.linalg.norm(rows, axis=1).max() for rows in one.rows) <= 0.5 * (1 + 1e-6)
