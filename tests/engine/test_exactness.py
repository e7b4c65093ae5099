"""Private runs need a machine that adds whole numbers exactly, and questions that are certified."""

import jax.numpy as jnp
import pytest

from conftest import make_plan, make_shards
from taciturn.engine import run
from taciturn.errors import PrivacyError
from taciturn.kernel.door import opening
from taciturn.kernel.door.opening import check_arithmetic


def test_this_machine_adds_whole_numbers_exactly():
    check_arithmetic()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_machine_that_multiplies_in_fewer_digits_is_refused(monkeypatch, place):
    true = opening._products

    def short(*parts):
        found = list(true(*parts))
        narrow = [part.astype(jnp.float32).astype(jnp.float64) for part in parts]
        found[place] = true(*narrow)[place]
        return found

    monkeypatch.setattr(opening, "_products", short)
    with pytest.raises(PrivacyError, match="rounds sums"):
        check_arithmetic()


def test_without_a_seed_such_a_machine_runs_nothing_and_with_one_it_may(monkeypatch):
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    monkeypatch.setattr(opening, "_products", lambda *parts: [part[..., 0] for part in parts[:3]])
    with pytest.raises(PrivacyError):
        run(made, shards, runtime="simulate")
    run(made, shards, runtime="simulate", seed=0)
