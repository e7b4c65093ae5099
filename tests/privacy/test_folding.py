"""Arrays that repeat most of their entries are kept without the repetitions, and mean the same."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from taciturn.engine.planning import compact
from taciturn.kernel.privacy import Gaussian, Ledger, Messages, Sum
from taciturn.kernel.privacy.ledger import folded, thin

SMALL = st.sampled_from([0.0, 0.5, 1.0])
SHAPES = hnp.array_shapes(min_dims=3, max_dims=3, max_side=4)


@given(hnp.arrays(np.float64, SHAPES, elements=SMALL))
def test_folding_forgets_nothing(values):
    different = folded(values)
    np.testing.assert_array_equal(np.broadcast_to(different, values.shape), values)
    assert thin(np.broadcast_to(different, values.shape)).shape == different.shape
    text = compact(values)
    np.testing.assert_array_equal(np.broadcast_to(np.array(text), values.shape), values)


def test_one_entry_that_differs_is_kept():
    values = np.ones((3, 4, 2))
    assert folded(values).size == 1
    values[2, 3, 1] = np.nextafter(1.0, 2.0)
    assert folded(values).shape == values.shape


@given(st.data())
def test_a_ledger_of_views_is_that_of_full_arrays(data):
    shape = data.draw(SHAPES)
    kind = data.draw(hnp.arrays(np.int64, shape, elements=st.sampled_from([-1, 0])))
    few = tuple(data.draw(st.sampled_from([1, side])) for side in shape)
    sensitivity, scale, step = (
        np.broadcast_to(data.draw(hnp.arrays(np.float64, few, elements=of)), shape)
        for of in (SMALL, st.sampled_from([1.0, 2.0**21]), st.sampled_from([0.0, 2.0**-4]))
    )
    views = Ledger(kind, sensitivity, scale, Gaussian(), step=step)
    full = Ledger(kind, sensitivity.copy(), scale.copy(), Gaussian(), step=step.copy())
    full.same_as(views)
    asked = kind >= 0
    largest = np.max(np.where(asked, step, 0.0), axis=0)
    one_lattice = np.all(~asked | (step == largest))  # as in every sum
    for observer in (Messages(), *([Sum(colluders=1)] if one_lattice else [])):
        np.testing.assert_array_equal(views.mu_per_agent(observer), full.mu_per_agent(observer))
    by_hand = np.where((kind >= 0) & (sensitivity > 0), sensitivity + 2 * step, 0.0) / scale
    np.testing.assert_allclose(
        views.mu_per_agent(Messages()), np.sqrt(np.sum(by_hand**2, axis=(1, 2))), rtol=1e-12
    )
    noised = (kind >= 0) & (step > 0)
    assert views.finest() == np.min((scale / np.maximum(step, 1e-9))[noised], initial=np.inf)
    with pytest.raises(ValueError, match="read-only"):
        views.scale[...] = 0.0


PLANNED = """
from taciturn.training import DataFacts, Request, propose
facts = DataFacts(
    name="mine", task="binary", classes=2, columns=100, record_norm=1.0, table=None
)
request = Request(epsilon=1.0, delta=1e-9, rounds=200)
plan = propose(facts, [100 + i % 3 for i in range(100_000)], request).plan()
plan.digest
status = open("/proc/self/status").read()  # ru_maxrss counts what the parent had
print(int(status.partition("VmHWM:")[2].split()[0]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hundred_thousand_agents_are_planned_in_a_gibibyte():
    ended = subprocess.run([sys.executable, "-c", PLANNED], capture_output=True, check=True)
    assert float(ended.stdout) < 1.0
