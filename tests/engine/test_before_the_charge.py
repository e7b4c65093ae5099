"""What would fail in a run is found by its plan; wrong targets are refused behind the charge."""

import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

from conftest import make_terms, packed, plan_of
from taciturn.algorithms import NoisyGradient
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.engine import plan, reserve, run
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient
from taciturn.problems import L1, HuberHinge, Logistic, Problem, facts_from
from taciturn_power.conic import polyhedron

PLAIN = Problem(Logistic())


def planned(algorithm, problem, oracle=None, **options):
    return plan(
        facts_from(problem, (20, 20), features=3, record_norm=1.0, clip=0.5), algorithm,
        (oracle or Gradient(problem.loss, 0.5),), make_terms(), rounds=3, precision="float64",
        **options,
    )  # fmt: skip


class Forgets(NoisyGradient):
    """Planted fault: a schedule is looked up that does not exist."""

    @override
    def tell(self, state, inbox, turn, answer):
        return answer / turn.values["pace"]


class Grows(NoisyGradient):
    """Planted fault: the public value changes its shape."""

    @override
    def combine(self, public, mean_message, turn):
        return jnp.concatenate([jnp.ravel(leaf) for leaf in (public, mean_message) if leaf.ndim])


class ByTheValue(NoisyGradient):
    """Planted fault: a branch on a number that is known only once the program runs."""

    @override
    def tell(self, state, inbox, turn, answer):
        return answer if float(answer[0]) > 0 else -answer


@pytest.mark.parametrize(
    ("fault", "said"), [(Forgets, "KeyError: 'pace'"), (Grows, ""), (ByTheValue, "Concretization")]
)
def test_a_fault_in_a_method_is_found_by_its_plan_in_one_line(fault, said):
    with pytest.raises(InputError, match=f"{fault.__name__} cannot be run") as found:
        planned(fault(PLAIN), PLAIN)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_an_l1_norm_on_a_polytope_is_found_by_the_plan():
    corner = polyhedron(A=np.eye(3), b=np.ones(3))
    problem = Problem(Logistic(), L1(0.1), corner)
    with pytest.raises(InputError, match="no proximal map of the l1 norm"):
        planned(NoisyGradient(problem), problem)


FAULTS = {"KeyError": "return turn.values['pace']", "ZeroDivisionError": "return 1 / 0"}


@pytest.mark.parametrize("step", FAULTS)
def test_a_fault_is_found_before_an_account_is_charged(step, tmp_path, monkeypatch, capsys):
    """The table of methods names a class of the user's; its fault is no charge."""
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"mine_{step}.py").write_text(
        "from taciturn.algorithms import METHODS, NoisyGradient\n"
        "class Faulty(NoisyGradient):\n"
        "    def tell(self, state, inbox, turn, answer):\n"
        f"        {FAULTS[step]}\n"
    )
    account = open_account("books", Guarantee(9.0, 1e-3), AccountTerms(), folder=tmp_path)
    run = ["train", "breast_cancer", "--epsilon", "1", "--delta", "1e-4", "--rounds", "2"]
    run += ["--algorithm", f"mine_{step}:Faulty", "--account", "books", "--accounts", str(tmp_path)]
    assert main(run) == 2
    said = capsys.readouterr().err
    assert step in said
    assert account.state().charged == ()


def shards_of(targets):
    draw = np.random.default_rng(0)
    count = len(targets)
    return packed(draw.standard_normal((count, 3)), np.asarray(targets), [np.arange(count)])


@pytest.mark.parametrize("loss", [HuberHinge(0.5)])
@pytest.mark.parametrize("wrong", [[0, 1] * 10, [0.0, 1.0] * 10, [-1] * 19 + [2]])
def test_labels_0_and_1_are_refused_by_a_loss_that_wants_minus_1_and_1(loss, wrong):
    problem = Problem(loss)
    shards = shards_of(wrong)
    made = plan_of(NoisyGradient(problem), shards, clip=0.5, rounds=2)
    with pytest.raises(InputError, match="neither -1 nor 1; map the two classes") as found:
        run(made, shards, runtime="simulate")
    assert "\n" not in str(found.value)
    run(made, shards_of([-1, 1] * 10), runtime="simulate")


def test_a_refusal_of_targets_is_no_free_information(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("books", Guarantee(9.0, 1e-3), AccountTerms(), folder=tmp_path)
    shards = shards_of([-1] * 19 + [0])
    made = plan_of(NoisyGradient(PLAIN), shards, clip=0.5, rounds=2)
    paid = reserve(account, made, seed=None, what="a run")
    paid.begin()
    with pytest.raises(InputError, match="neither -1 nor 1"):
        run(made, shards, runtime="simulate", account=paid)
    (entry,) = account.state().charged
    assert entry.status == "failed"
