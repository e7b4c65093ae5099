"""Candidates share a budget, held-out records pick one, and an account pays for all of it once."""

import dataclasses
import json
import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.cli.tune import candidates_in
from taciturn.datasets import Dataset
from taciturn.errors import AccountError, InputError, PrivacyError
from taciturn.kernel.door.choice import errors_of, pick
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import mu_of_choice
from taciturn.kernel.questions import ClippedErrors, Tally
from taciturn.kernel.records import Draw, Shard, Shards
from taciturn.problems import Named
from taciturn.training import (
    Division,
    Proposal,
    Request,
    StructureRequest,
    count_data,
    data_facts,
    divide,
    train,
)
from taciturn.training.tuning import (
    TuneProposal,
    picked,
    plan_choice,
    price_of,
    propose_choice,
    tune,
)


def made(rows=240):
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (rows, 3)) / math.sqrt(3)
    y = np.where(x[:, 0] + 0.3 * draw.standard_normal(rows) > 0, 1.0, -1.0)
    return Dataset(
        name="made", title="made", features=x, targets=y, task="binary", classes=2,
        feature_names=("a", "b", "c"), train_rows=200, fixed_test=True, public=True, licence="CC0",
        source="here", record_norm=1.0, conditions=(),
    )  # fmt: skip


def counted(dataset):
    return count_data(Division(), dataset)


def request(**more):
    return Request(**{"epsilon": 3.0, "delta": 1e-4, "rounds": 3, **more})


def proposed(agents=2, share=0.25, **shared):
    data = divide(made(), agents, split_seed=0)
    heavy = Named.parse("regulariser", "l2:10")
    several = [
        ("useless", request(regulariser=heavy, **shared), StructureRequest()),
        ("plain", request(**shared), StructureRequest()),
        ("long", request(**{**shared, "rounds": 6}), StructureRequest()),
    ]
    counts, dealt = data.counts, data.dealt
    return propose_choice(data_facts(made()), counts, several, share=share, dealt=dealt)


@pytest.fixture(scope="module")
def proposal():
    return proposed()


def test_all_trainings_together_cost_the_budget_and_the_choice_no_more(proposal):
    plan = plan_choice(proposal)
    own = [one.certificate.mu for one in plan.plans]
    assert plan.certificate.mu == pytest.approx(math.sqrt(sum(mu**2 for mu in own)), rel=1e-5)
    assert 0.999 * 3.0 < plan.certificate.epsilon <= 3.0 * (1 + 1e-9)
    assert mu_of_choice(plan.rate, proposal.budget.terms.adjacency.relation) <= min(
        plan.certificate.per_agent_mu
    )
    assert any("(training, held out)" in line for line in plan.certificate.conditions)


def test_a_proposal_is_data_and_refuses_what_does_not_fit_together(proposal):
    assert TuneProposal.from_json(proposal.to_json()) == proposal
    values = json.loads(proposal.to_json())

    def refused(match, change):
        other = json.loads(json.dumps(values))
        change(other)
        with pytest.raises(InputError, match=match):
            TuneProposal.from_json(json.dumps(other))

    refused("give 2 to 32", lambda v: v.update(candidates=v["candidates"][:1]))
    refused("same name", lambda v: v["candidates"][0].update(name="plain"))
    refused("other terms", lambda v: v["candidates"][0]["proposal"]["budget"].update(delta=1e-3))
    refused("different records", lambda v: v["candidates"][1]["proposal"].update(split_seed=4))
    refused("different records", lambda v: v["candidates"][1]["proposal"].update(counts=[74, 76]))
    refused("other records", lambda v: v["evaluation"].update(counts=[24, 26]))
    refused("other records", lambda v: v["evaluation"].update(asked=True))

    def everywhere(values, **changed):
        for one in (values, *(candidate["proposal"] for candidate in values["candidates"])):
            one["evaluation"].update(changed)

    refused("propose again", lambda v: everywhere(v, counts=[24, 26]))
    refused("records that choose are not evaluated", lambda v: everywhere(v, asked=True))
    refused("finite epsilon", lambda v: v["budget"].update(epsilon="infinity"))


def test_a_candidate_that_takes_more_than_its_share_is_found_by_the_plan(proposal):
    values = json.loads(proposal.to_json())
    for candidate in values["candidates"]:
        candidate["proposal"]["budget"]["epsilon"] = 3.0
    with pytest.raises(PrivacyError, match="the budget is 3"):
        plan_choice(TuneProposal.from_json(json.dumps(values)))


def test_methods_whose_answers_have_no_mu_are_refused():
    with pytest.raises(InputError, match="leave out methods that sample"):
        plan_choice(proposed(algorithm="dp-sgd", options={"sampling_rate": 0.2}))


def shards_of(rows, targets):
    mask = jnp.ones(targets.shape)
    return Shards(Shard(jnp.asarray(rows), jnp.asarray(targets), mask), (targets.shape[1],), 1.0)


@pytest.mark.parametrize(
    "question",
    [
        Tally(2),
        pytest.param(Tally(2, rows_per_person=2), marks=pytest.mark.slow),
        pytest.param(ClippedErrors(), marks=pytest.mark.slow),
    ],
)
def test_a_replaced_record_moves_the_errors_of_each_candidate_by_at_most_1(question):
    draw = np.random.default_rng(0)
    models = draw.standard_normal((3, 2))
    largest = 0.0
    for _ in range(20):
        rows = draw.uniform(-0.7, 0.7, (1, 8, 2))
        targets = np.sign(draw.standard_normal((1, 8)))
        other, flipped = rows.copy(), targets.copy()
        changed = 2 if question.rows_per_person else 1
        other[0, :changed], flipped[0, :changed] = -rows[0, :changed], draw.choice([-1, 1])
        for model in models:
            pair = [
                errors_of(question, model, shards_of(*one))[0]
                for one in ((rows, targets), (other, flipped))
            ]
            assert all(isinstance(value, Fraction) for value in pair)
            largest = max(largest, abs(float(pair[0] - pair[1])))
    assert 0.5 < largest <= 1


@pytest.fixture(scope="module")
def tuned(proposal):
    return tune(
        counted(made()), proposal, seed=5, price=price_of(proposal, plan_choice(proposal), None)
    )


@pytest.mark.slow
def test_the_winner_carries_the_certificate_of_everything(tuned, proposal):
    certificate = tuned.certificate
    assert certificate.mu == plan_choice(proposal).certificate.mu
    assert certificate.reproduction
    assert "(training, held out)" in certificate.conditions[-1]
    assert tuned.training.proposal == proposal.candidates[tuned.picked].proposal
    assert len(tuned.picks) == 2
    assert json.loads(json.dumps(tuned.to_dict()))["picked"] == tuned.names[tuned.picked]
    assert tuned.price.noise == pytest.approx(math.sqrt(3))


@pytest.mark.slow
def test_held_out_records_reach_the_pick_alone(tuned, proposal):
    dataset = made()
    data = divide(dataset, 2, split_seed=0, evaluate=0.25, draw=Draw(seed=0))
    rows = {tuple(row): place for place, row in enumerate(dataset.features)}
    place_of = np.array([rows[tuple(row)] for row in data.parts.train_features])
    held = place_of[np.concatenate(data.held_out)]
    x, y = dataset.features.copy(), dataset.targets.copy()
    x[held], y[held] = -x[held][:, ::-1], -y[held]
    same = dataclasses.replace(dataset, features=x, targets=y)
    again = tune(counted(same), proposal, seed=5)
    errors = [one.training.metrics.test_error for one in (again, tuned)]
    assert again.picked != tuned.picked or errors[0] == errors[1]
    if again.picked == tuned.picked:
        np.testing.assert_array_equal(again.training.model, tuned.training.model)
    x, y = dataset.features.copy(), dataset.targets.copy()
    kept = place_of[data.owners[0][:20]]
    x[kept], y[kept] = -x[kept][:, ::-1], -y[kept]
    other = tune(counted(dataclasses.replace(dataset, features=x, targets=y)), proposal, seed=5)
    assert other.picked != tuned.picked or np.any(other.training.model != tuned.training.model)


def test_votes_are_weighed_by_public_counts():
    assert picked([0, 2, 2], [50, 20, 20], 3) == 0
    costs = [[Fraction(0), Fraction(900)], [Fraction(900), Fraction(0)]]
    assert pick(costs, 1.0, Stream.fresh()) == (0, 1)


@pytest.mark.slow
def test_an_account_is_charged_once_for_everything_or_refuses_it(tmp_path, monkeypatch, proposal):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", Guarantee(3.2, 1e-4), AccountTerms(), folder=tmp_path)
    found = tune(counted(made()), proposal, account=account)
    charged = found.training.charged
    assert charged.after.total.squares == pytest.approx(found.certificate.mu**2, rel=1e-6)
    (run,) = account.state().runs
    assert run.status == "released"
    assert "3 candidates" in run.purpose.what
    with pytest.raises(AccountError):
        tune(counted(made()), proposal, account=account)
    assert len(account.state().charged) == 1
    with pytest.raises(InputError, match="reproduction"):
        tune(counted(made()), proposal, account=account, seed=1)


def test_the_price_says_what_the_choice_can_tell_apart(proposal):
    price = price_of(proposal, plan_choice(proposal), None)
    assert price.gap is None or 0 < price.gap <= 1
    few = price_of(proposed(agents=1), plan_choice(proposed(agents=1)), None)
    assert few.gap is not None
    # by hand, one agent: 1 / (1 + (k - 1) exp(-rate n gap)) = 0.95
    rate = plan_choice(proposed(agents=1)).rate
    assert few.gap == pytest.approx(math.log(2 * 0.95 / 0.05) / (rate * 50), rel=0.1)


RUN = ("--epsilon", "3", "--delta", "1e-4", "--agents", "2", "--no-centre", "--rounds", "2")


BAD = {
    "no TOML": ("rounds = [", "is no TOML"),
    "no list": ("rounds = 3", "give its values in brackets"),
    "two alike": ("rounds = [3, 3]", "same name"),
    "too many": ("rounds = [1,2,3,4,5,6]\nclip=[0.1,0.2,0.3,0.4,0.5,0.6]", "more than 32"),
    "a shared option": ("epsilon = [1, 2]", "same for all candidates"),
    "both forms": ("rounds = [1]\n[[candidates]]\nrounds = 2", "either tables or lists"),
    "no mu": ('algorithm = ["noisy-gradient", "dp-sgd"]', "leave out methods that sample"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_of_candidates_is_one_line(bad, tmp_path, capsys):
    text, expected = BAD[bad]
    (tmp_path / "c.toml").write_text(text)
    out = tmp_path / "out"
    run = ["tune", "breast_cancer", "--candidates", str(tmp_path / "c.toml"), *RUN]
    assert main([*run, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error
    assert not out.exists()


BOUNDS = """
source = "public"
[target]
name = "y"
values = ["a", "b"]
[columns.x]
min = 0.0
max = 1.0
"""


@pytest.fixture
def charged(tmp_path, monkeypatch):
    """An account, and the words of a choice on a table that is charged to it."""
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("t", Guarantee(9.0, 1e-3), AccountTerms(), folder=tmp_path)
    (tmp_path / "b.toml").write_text(BOUNDS)
    (tmp_path / "c.toml").write_text('features = ["bins:4", "bins:8"]\n')
    rows = [f"{k / 100},{'ab'[k > 50]}" for k in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]))
    return account, [
        *("tune", str(tmp_path / "t.csv"), "--target", "y", "--bounds", str(tmp_path / "b.toml")),
        *("--candidates", str(tmp_path / "c.toml"), "--account", "t", "--accounts", str(tmp_path)),
        *RUN,
    ]


@pytest.mark.slow
def test_the_certificate_names_the_conditions_of_those_that_lost():
    """A feature map that was not public would have leaked by what it was asked, picked or not."""
    data = divide(made(), 1, split_seed=0)
    heavy = request(regulariser=Named.parse("regulariser", "l2:1e6"), features="fourier:4")
    several = [("plain", request(), StructureRequest()), ("lost", heavy, StructureRequest())]
    facts, counts = data_facts(made()), data.counts
    proposal = propose_choice(facts, counts, several, share=0.25, dealt=data.dealt)
    found = tune(counted(made()), proposal, seed=5)
    assert found.names[found.picked] == "plain"
    assert any("fourier:4" in said for said in found.certificate.conditions)


@pytest.mark.slow
def test_a_table_is_charged_before_its_cells_are_read(charged, tmp_path, capsys):
    account, run = charged
    assert main([*run, "--seed", "1"]) == 2
    assert "reproduction" in capsys.readouterr().err
    assert not account.state().charged
    assert main(run) == 0
    assert "features bins:" in capsys.readouterr().out
    assert len(account.state().charged) == 1
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text() + "\nzq,a")
    assert main(run) == 2
    error = capsys.readouterr().err
    assert "zq" not in error
    assert len(account.state().charged) == 2


@pytest.mark.parametrize(
    ("agents", "features", "more"),
    [
        (1, None, {"centre": False}),
        pytest.param(2, "fourier:4", {}, marks=pytest.mark.slow),
        pytest.param(4, None, {"algorithm": "nids"}, marks=pytest.mark.slow),
    ],
)
def test_the_picked_proposal_is_planned_again_as_it_was_trained(agents, features, more):
    """Planted fault: the certificate of everything in place of that of the plan."""
    data = divide(made(), agents, split_seed=0)
    more = {**more, "features": features}
    several = [(f"r{k}", request(rounds=k, **more), StructureRequest()) for k in (2, 3)]
    facts, counts = data_facts(made()), data.counts
    proposal = propose_choice(facts, counts, several, share=0.25, dealt=data.dealt)
    training = tune(counted(made()), proposal, seed=5).training
    planned = Proposal.from_json(training.proposal.to_json()).plan()
    assert training.plan.digest == planned.digest
    mixed = dataclasses.replace(training.plan, certificate=training.certificate)
    assert mixed.digest != planned.digest
    # and the same records are trained on again
    share, draw = proposal.evaluation.share, Draw(seed=0)
    records = divide(made(), agents, split_seed=0, features=features, evaluate=share, draw=draw)
    again = train(records, training.proposal, reference=False, seed=5)
    assert again.plan.digest == planned.digest
    assert again.private_score is None
    assert training.certificate.mu > again.certificate.mu


@pytest.mark.slow
def test_the_report_of_a_choice_is_trained_again_by_its_proposal(charged, tmp_path, capsys):
    _, run = charged
    tuned, trained = tmp_path / "tuned", tmp_path / "trained"
    assert main([*run, "--out", str(tuned), "--quiet"]) == 0
    again = ("--proposal", str(tuned / "proposal.json"), "--out", str(trained), "--quiet")
    assert main(["train", run[1], *again, "--account", "t", "--accounts", str(tmp_path)]) == 0
    assert "held out, and asked nothing" in capsys.readouterr().out
    one, other = (json.loads((out / "results.json").read_text()) for out in (tuned, trained))
    assert (one["plan"], one["proposal"]) == (other["plan"], other["proposal"])
    plan = json.loads((tuned / "plan.json").read_text())
    assert plan["certificate"]["mu"] < plan["choice"]["certificate"]["mu"] == one["mu"]


def test_errors_are_the_wrong_labels():
    draw = np.random.default_rng(1)
    rows, targets = draw.uniform(-0.7, 0.7, (1, 50, 2)), np.sign(draw.standard_normal((1, 50)))
    model = np.array([1.0, -0.5])
    wrong = int(np.sum((rows[0] @ model >= 0) != (targets[0] > 0)))
    assert errors_of(Tally(2), model, shards_of(rows, targets)) == (Fraction(wrong),)


def test_tables_of_candidates_may_name_different_options(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[[candidates]]\nclip = 1\n[[candidates]]\nfeatures = "bins:4"\nrounds = 7\n')
    assert candidates_in(file) == [{"clip": 1.0}, {"features": "bins:4", "rounds": 7}]
