"""Records that a draw dealt to agents: what no run, pickle, slice or account may tell or take."""

import pickle

import numpy as np
import pytest
from tests.conftest import make_plan
from tests.kernel.test_row_order import private_records

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.engine import run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.records import (
    Draw,
    Persons,
    check_origins,
    hold_out,
    origin_of,
    pack,
    random_partition,
)
from taciturn.problems import Named
from taciturn.training import (
    DataFacts,
    Request,
    StructureRequest,
    divide,
    proposal_for,
    propose,
    train,
)
from taciturn.training.evaluation import evaluation_plan, with_evaluation

ROWS = 60


def packed(parts, persons=None):
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((ROWS, 3))
    return pack(
        *(rows, np.where(rows[:, 0] > 0, 1.0, -1.0), parts), record_norm=1.0, precision="float64",
        persons=persons,
    )  # fmt: skip


def account(folder):
    return open_account("one", Guarantee(9.0, 1e-3), AccountTerms(), folder=folder)


def test_a_run_that_is_pickled_does_not_tell_whose_each_record_was():
    kept, held = hold_out(random_partition(ROWS, 4), 0.2)
    shards = packed(kept)
    finished = run(make_plan("noisy-gradient", shards), shards, runtime="simulate")
    check_origins(finished.origin, packed(held).origin)
    again = pickle.loads(pickle.dumps(finished))
    np.testing.assert_array_equal(again.model, finished.model)
    assert finished.origin.rows
    assert again.origin is None
    with pytest.raises(PrivacyError, match="held out"):
        check_origins(again.origin, packed(held).origin)


def test_some_of_the_agents_of_dealt_records_hold_dealt_records():
    parts = random_partition(ROWS, 4)
    assert origin_of(parts[:2]).dealt
    assert origin_of(random_partition(ROWS, 4, seed=1)[1:]).reproducible
    np.testing.assert_array_equal(parts[:2][1], parts[1])
    first, second = (packed(some) for some in (parts[:2], parts[2:]))
    for shards in (first, second):
        with pytest.raises(InputError, match="dealt at random"):
            run(make_plan("noisy-gradient", packed([*parts[:2]])), shards, runtime="simulate")


def test_no_account_is_charged_for_records_that_a_public_seed_divided(tmp_path):
    charged = account(tmp_path)
    dealt = random_partition(ROWS, 4, seed=3)
    held_out = hold_out([np.arange(ROWS)], 0.2, seed=3)[0]
    for parts in (dealt, held_out):
        shards = packed(parts)
        with pytest.raises(InputError, match="public seed divided"):
            run(make_plan("noisy-gradient", shards), shards, runtime="simulate", account=charged)
    data = divide(private_records(np.arange(ROWS) / ROWS), 2, split_seed=0, draw=Draw(seed=0))
    asked = Request(epsilon=1.0, delta=1e-3, rounds=2)
    proposed = proposal_for(data, asked, StructureRequest())
    with pytest.raises(InputError, match="public seed divided"):
        train(data, proposed, reference=False, account=charged)
    assert not charged.state().charged


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["poisson", "fixed"])
def test_the_dearest_figure_is_stated_of_agents_that_hold_nothing_out(batches):
    facts = DataFacts(
        name="records", task="binary", classes=2, columns=3, record_norm=1.0, table=None
    )
    unlike = 0
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        asked = Request(
            epsilon=epsilon, delta=1e-3, algorithm="dp-sgd", rounds=3, evaluate=0.11, clip=0.5,
            loss=Named(name="logistic", numbers=()),
            options={"sampling_rate": 0.3, "batches": batches},
        )  # fmt: skip
        for dealt in (True, False):
            proposed = propose(facts, [5, 5, 4], asked, None, dealt=dealt)
            assert proposed.evaluation.counts == (1, 1, 0)
            plan = proposed.plan()
            last = evaluation_plan(proposed, plan).certificate
            both = with_evaluation(proposed, plan.certificate, last)
            different = len(set(both.per_agent_epsilon))
            assert max(both.per_agent_epsilon) == both.epsilon
            if dealt:
                assert different == 1
            else:
                unlike += different > 1
    assert unlike  # who owns records is told their own figure


def test_a_person_at_two_agents_is_refused_by_a_plan_for_one_and_by_an_evaluation():
    """The certificate said mu of one agent: 0.388, where both together told 0.549."""
    halves = [np.arange(ROWS // 2), np.arange(ROWS // 2, ROWS)]
    persons = Persons(np.arange(ROWS) % (ROWS // 4), 2)
    shards = packed(halves, persons)

    def ran(agents):
        adjacency = Adjacency(ReplaceOne(), "person", 2, agents)
        terms = Terms(epsilon=1.0, delta=1e-3, adjacency=adjacency, observer=Messages())
        return run(make_plan("noisy-gradient", shards, terms=terms), shards, runtime="simulate")

    with pytest.raises(InputError, match="a person has rows at 2 agents, and one may"):
        ran(1)
    assert ran(2).certificate.adjacency.agents_per_person == 2
    with pytest.raises(InputError, match="evaluated at another"):
        hold_out(halves, 0.3, persons=persons)
    kept, held = hold_out(persons.deal(2, Draw.secret()), 0.3, persons=persons)
    sides = [set(persons.numbers[np.concatenate(side)]) for side in (kept, held)]
    assert not sides[0] & sides[1]
