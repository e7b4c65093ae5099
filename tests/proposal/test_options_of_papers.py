"""Names and options that the four papers print: found in every spelling, checked, written down."""

import math

import numpy as np
import pytest

from taciturn.algorithms import PUBLISHED, published_method
from taciturn.audit.subject import DATA
from taciturn.errors import InputError
from taciturn.kernel.privacy import Laplace
from taciturn.network import uniform_walk
from taciturn.training import Proposal, StructureRequest, agent_rows, forecast, propose
from taciturn.training.evaluation import evaluation_plan, with_evaluation
from taciturn.training.request import NetworkRequest, Request

FACTS = DATA.model_copy(update={"columns": 4})
EACH = (2.0, 0.5, 1.0)


def proposal(algorithm, *, counts=(60, 60, 60), structure=None, **given):
    usual = {"epsilon": 2.0, "delta": 1e-5, "features": "columns", "centre": False, "rounds": 6}
    request = Request(algorithm=algorithm, **usual | given)
    return propose(FACTS, list(counts), request, structure)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("DP-ADMM", "dp-admm"), ("dpadmm", "dp-admm"), ("PVP", "pvp"), ("DVP", "dvp"),
        ("DPSGD", "dp-sgd"), ("RECAL", "recal"), ("NIDS", "nids"), ("EXTRA", "extra"),
        ("IC-ADMM", "ic-admm"), ("SADMM", "sadmm"), ("VR ADMM", "vradmm"), ("Walkman", "walkman"),
    ],
)  # fmt: skip
def test_names_are_found_in_any_case_with_hyphens_or_not(printed, name):
    assert published_method(printed, {}, 1.0) == (name, {})


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.printed)
def test_every_printed_name_is_a_method_with_its_options(one):
    epsilon = math.inf if one.quiet else 1.0
    for spelling in (one.printed, one.printed.lower(), one.printed.replace("-", "_")):
        assert published_method(spelling, {}, epsilon) == (one.method, dict(one.options))


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("DP-RECAL", {}, "recal is the sound form.*as_published.dp_recal"),
        ("diging", {}, "taciturn_papers.methods:DIGing"),
        ("RW-ADMM", {}, "taciturn_papers.methods:RWADMM"),
        ("R-ADMM", {}, "taciturn_papers.methods:mr_admm"),
        ("recall", {}, "did you mean recal"),
        ("ADMM", {}, "without privacy"),
        ("ObjL", {"law": "gaussian"}, "with law laplace, and gaussian is given"),
    ],
)
def test_other_names_say_what_to_use(name, given, why):
    with pytest.raises(InputError, match=why):
        published_method(name, given, 1.0)


@pytest.mark.parametrize(
    ("algorithm", "options", "why"),
    [
        ("recal", {"rho": 1.0}, "use dp-admm"),
        ("dp-admm", {"step_size": 0.1}, "no effect without step-rule; add step-rule constant"),
        ("dp-admm", {"step_rule": "constant", "radius": 3.0, "step_size": 0.1}, "radius has no"),
        ("dp-admm", {"step_rule": "constant"}, "needs a step size"),
        ("dp-admm", {"radius": 1e30}, "between 1e-09 and 1e"),
        ("dp-sgd", {"step_size": 1e30}, "between 1e-09 and 1e"),
        ("linearised-admm", {"step_decay": "sqrt"}, "add step-size"),
        ("sadmm", {"gamma": 1.0}, "add steps public or published"),
        ("vradmm", {"form": "strongly-convex"}, "add steps public or published"),
        ("recal", {"step_size": 0.1, "agent_step_sizes": "0.1,0.1,0.1"}, "leave agent-step-sizes"),
        ("recal", {"agent_step_sizes": "0.1,x"}, "separated by commas"),
    ],
)
def test_options_without_effect_or_out_of_range_are_refused(algorithm, options, why):
    with pytest.raises(InputError, match=why):
        proposal(algorithm, options=options)


def test_epochs_are_rounds_of_methods_on_batches():
    rate = {"sampling_rate": 0.25}
    assert proposal("dp-sgd", rounds=None, epochs=3, options=rate).rounds == 12
    with pytest.raises(InputError, match="give one"):
        proposal("dp-sgd", epochs=3)
    with pytest.raises(InputError, match="has no epochs"):
        proposal("dp-admm", rounds=None, epochs=3)


def test_the_printed_rule_of_liu_is_stated_by_its_options():
    printed = {"steps": "published", "gamma": 1.0, "rho": 0.5, "sampling_rate": 1.0}
    lasso = StructureRequest(structure="lasso").of_columns(tuple("abcd"))
    made = proposal(
        "DP-SADMM", structure=lasso, options=printed | {"step_size": 0.2, "step_decay": "sqrt"}
    ).plan()
    np.testing.assert_allclose(made.schedules["step_size"], 0.2 / np.sqrt(np.arange(1, 7)))
    np.testing.assert_array_equal(made.schedules["rho"], 0.5)
    with pytest.raises(InputError, match="overflow"):
        proposal(
            "sadmm", structure=lasso, rounds=50, options=printed | {"rho": 1e4, "step_size": 1.0}
        ).plan()
    ridge = lasso.model_copy(update={"ridge": 0.1})
    strong = printed | {"form": "strongly-convex"}
    made = proposal("sadmm", structure=ridge, options=strong).plan()
    np.testing.assert_allclose(made.schedules["step_size"], 2 / (0.1 * np.arange(1, 7)))
    with pytest.raises(InputError, match="needs a ridge"):
        proposal("sadmm", structure=lasso, options=strong)


def test_a_forecast_of_laplace_noise_is_its_standard_deviation():
    laplace = proposal("ObjL", rounds=2)
    made = laplace.plan()
    assert made.program.mechanism == Laplace()
    scale = made.ledger.scale[:, 0, 0]
    nu = math.sqrt(2 * np.sum(scale**2)) / len(scale)
    assert forecast.forecast(laplace, plan=made).noise == pytest.approx(nu, rel=1e-12)


def test_a_proposal_carries_the_budgets_of_agents_and_only_where_given():
    without = proposal("recal", network=NetworkRequest(network="ring"))
    assert "agent_epsilons" not in without.to_json()
    with_budgets = proposal("recal", agent_epsilons=EACH, network=NetworkRequest(network="ring"))
    assert Proposal.from_json(with_budgets.to_json()) == with_budgets
    spent = with_budgets.plan().certificate.per_agent_epsilon
    assert spent == pytest.approx(EACH, rel=1e-5)


def test_an_evaluation_is_within_the_budget_of_each_agent():
    made = proposal("noisy-gradient", evaluate=0.25, agent_epsilons=EACH)
    trained = made.plan()
    asked = evaluation_plan(made, trained)
    assert asked.certificate.per_agent_epsilon == pytest.approx(EACH, rel=1e-5)
    both = with_evaluation(made, trained.certificate, asked.certificate)
    spent = both.per_agent_epsilon
    assert all(one <= budget for one, budget in zip(spent, EACH, strict=True))


def test_the_leakage_frequency_of_a_relay_is_that_of_its_walk():
    wanted = NetworkRequest(network="ring", walk="random")
    made = proposal("recal", rounds=20, network=wanted)
    walk = made.network.network(3)
    same = uniform_walk(walk.graph, 20, seed=0)
    assert walk.privacy_leakage_frequency == same.privacy_leakage_frequency
    planned = made.plan()
    rows = dict(agent_rows(made, planned, planned.certificate))
    assert rows["privacy leakage frequency"].startswith(f"{walk.privacy_leakage_frequency} ")
