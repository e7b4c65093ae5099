"""Runs, fits and commands that are charged: before a record is read, and for good."""

import dataclasses
import io
import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from tests.conftest import bounds_of_ill, make_plan, make_shards, make_terms
from tests.privacy.certified import book, leg_of, person

from taciturn.budget import Account, AccountTerms, Guarantee, open_account, total_of
from taciturn.cli import main
from taciturn.engine import charge_of, charge_of_legs, run
from taciturn.errors import AccountError, InputError
from taciturn.estimators import PrivateLinearRegression, PrivateLogisticRegression, validation
from taciturn.kernel.door import opening
from taciturn.kernel.privacy import Laplace, Messages, Sum, Terms, ZeroOut, compose
from taciturn.kernel.records import Shards


def opened(tmp_path, epsilon=3.0, delta=1e-4, curves=0.0, **terms):
    guarantee = Guarantee(epsilon, delta, curves)
    return open_account("one", guarantee, AccountTerms(**terms), folder=tmp_path / "accounts")


def answer(plan, shards, account, **more):
    return run(plan, shards, runtime="simulate", account=account, **more)


def test_a_run_is_charged_for_what_its_certificate_says(tmp_path):
    account, shards = opened(tmp_path), make_shards()
    plan = make_plan("noisy-gradient", shards)
    finished = answer(plan, shards, account)
    state = account.state()
    assert finished.charged.after == state.balance
    assert finished.charged.before.total.squares == 0
    mu = finished.certificate.mu
    assert mu**2 <= state.total.squares <= mu**2 * (1 + 1e-7)
    assert state.total.values == plan.ledger.most_values()
    assert [one.status for one in state.runs] == ["released"]
    assert answer(plan, shards, None).charged is None


def test_records_are_looked_at_only_once_the_mark_is_on_the_disk(tmp_path, monkeypatch):
    account, shards = opened(tmp_path), make_shards()
    plan = make_plan("noisy-gradient", shards)
    seen = []

    checked = opening.check_shards

    def check(given):
        seen.append([one.status for one in account.state().runs])
        return checked(given)

    monkeypatch.setattr(opening, "check_shards", check)
    answer(plan, shards, account)
    assert seen == [["opened"]]
    # planted fault: a run that charges nothing looks as well, and the same test sees it
    seen.clear()
    answer(plan, shards, None)
    assert seen == [["released"]]


def test_what_is_wrong_with_public_facts_charges_nothing(tmp_path):
    account, shards = opened(tmp_path), make_shards()
    plan = make_plan("noisy-gradient", shards)
    noiseless = make_plan("noisy-gradient", shards, terms=make_terms(math.inf))
    other: Shards = make_shards(records=13)
    for planned, given, more in (
        (plan, other, {}), (plan, shards, {"seed": 0}), (noiseless, shards, {}),
        (make_plan("noisy-gradient", shards, terms=make_terms(relation=ZeroOut())), shards,
         {"seed": 1}),
    ):  # fmt: skip
        with pytest.raises(InputError):
            answer(planned, given, account, **more)
    assert account.state().runs == ()


def test_the_largest_epsilon_of_a_refusal_fits(tmp_path):
    account, shards = opened(tmp_path, epsilon=0.7, delta=1e-5), make_shards()
    with pytest.raises(AccountError, match="largest epsilon") as refused:
        answer(make_plan("noisy-gradient", shards, terms=make_terms(1.0)), shards, account)
    words = str(refused.value).split("fit is ")[1].split()
    most, delta = float(words[0]), float(words[-1])
    assert delta == 1e-5
    more = make_plan("noisy-gradient", shards, terms=make_terms(most * 1.002))
    with pytest.raises(AccountError):
        answer(more, shards, account)
    assert account.state().runs == ()
    answer(make_plan("noisy-gradient", shards, terms=make_terms(most)), shards, account)


def test_summation_is_credited_by_an_account_against_sums_only(tmp_path):
    shards = make_shards()
    plan = make_plan("noisy-gradient", shards, terms=make_terms(observer=Sum(1)))
    assert plan.program.summed
    charge = charge_of(plan)
    mu = plan.certificate.mu
    sums = total_of(AccountTerms(observer="sum"), 2, [charge]).squares
    heard = total_of(AccountTerms(), 2, [charge]).squares
    assert sums == pytest.approx(mu**2, rel=1e-7)
    assert heard == pytest.approx(3 * mu**2, rel=1e-5)  # three honest agents share the noise


ROWS = np.random.default_rng(0).uniform(0, 1, (300, 3))
ILL = ROWS.sum(axis=1) > 1.5


def estimator(account, **more):
    given = {"epsilon": 1.0, "delta": 1e-4, "bounds": (0, 1), "classes": [False, True], "rounds": 3}
    return PrivateLogisticRegression(account=account, **{**given, **more})


def test_a_fit_is_charged_before_its_cells_are_looked_at(tmp_path):
    account = opened(tmp_path)
    fitted = estimator(account).fit(ROWS, ILL)
    assert fitted.charged_.after.total.squares == pytest.approx(fitted.certificate_.mu**2, rel=1e-6)
    holes = ROWS.copy()
    holes[3, 1] = np.nan
    for rows, labels in ((holes, ILL), (ROWS, np.where(ILL, "yes", "no"))):
        with pytest.raises(InputError):
            estimator(account).fit(rows, labels)
    assert [one.status for one in account.state().runs] == ["released", "failed", "failed"]


def test_a_fit_whose_facts_are_read_off_the_records_is_refused(tmp_path):
    account = opened(tmp_path)
    for given in ({"bounds": None}, {"classes": None}, {"random_state": 0}, {"epsilon": math.inf}):
        with pytest.raises(InputError):
            estimator(account, **given).fit(ROWS, ILL)
    line = PrivateLinearRegression(epsilon=1.0, delta=1e-4, bounds=(0, 1), account=account)
    with pytest.raises(InputError, match="read off"):
        line.fit(ROWS, ROWS[:, 0])
    with pytest.raises(InputError, match="no account 'none'"):
        estimator(Account("none", account.folder)).fit(ROWS, ILL)
    assert account.state().runs == ()


def test_a_fit_that_its_size_or_its_labels_rule_out_charges_nothing(tmp_path, monkeypatch):
    account = opened(tmp_path)
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        estimator(account).fit(ROWS, ILL[:-1])
    monkeypatch.setattr(validation, "MOST_CELLS", ROWS.size - 1)
    for payer in (None, account):
        with pytest.raises(InputError, match="X is sparse"):
            estimator(payer).fit(csr_array(ROWS), ILL)
        with pytest.raises(InputError, match="Unknown label type: continuous"):
            estimator(payer, classes=[0.5, 1.5]).fit(ROWS, np.where(ILL, 1.5, 0.5))
    assert account.state().runs == ()


@pytest.mark.slow
def test_a_grid_search_stops_when_the_account_is_empty_and_says_after_how_many_fits(tmp_path):
    account = opened(tmp_path, epsilon=2.5)
    search = {"param_grid": {"l2": [1e-6, 1e-3]}, "cv": 4}
    with pytest.raises(AccountError, match=r"(\d+) fits of this process.*") as refused:
        GridSearchCV(estimator(account), error_score="raise", **search).fit(ROWS, ILL)
    fits = len(account.state().charged)
    assert f"{fits} fits of this process" in str(refused.value)
    assert 2 <= fits < 8
    # by default scikit-learn goes on: every further fit is refused, and charged nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        with pytest.raises(ValueError, match="fits failed"):
            GridSearchCV(estimator(account), **search).fit(ROWS, ILL)
    assert len(account.state().charged) == fits


@pytest.mark.slow
def test_fits_of_several_processes_and_of_pickled_estimators_are_all_charged(tmp_path):
    account = opened(tmp_path, epsilon=30)
    search = GridSearchCV(estimator(account), {"l2": [1e-6, 1e-3]}, cv=2, n_jobs=2).fit(ROWS, ILL)
    runs = account.state().runs
    assert [run.status for run in runs] == ["released"] * 5
    assert len({run.process for run in runs}) >= 2
    loaded = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(loaded.predict(ROWS), search.predict(ROWS))
    assert len(account.state().runs) == 5
    loaded.fit(ROWS, ILL)
    assert len(account.state().charged) == 6


@pytest.mark.slow
def test_commands_without_an_account_say_that_they_were_charged_nowhere(capsys):
    options = ["--epsilon", "1", "--delta", "1e-5", "--rounds", "2", "--quiet"]
    assert main(["train", "breast_cancer", *options]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "charged nowhere" in line]
    assert len(lines) == 1


def test_a_run_on_a_data_set_is_charged_to_the_account_that_is_named(tmp_path, capsys):
    """Its records are published, so it is not charged where a table is: behind its reservation."""
    account = opened(tmp_path)
    options = ["--epsilon", "1", "--delta", "1e-5", "--rounds", "2", "--agents", "3", "--json"]
    named = ["--account", "one", "--accounts", str(account.folder)]
    assert main(["train", "breast_cancer", *options, *named]) == 0
    given = json.loads(capsys.readouterr().out)["account"]
    (charged,) = account.state().runs
    assert charged.status == "released"
    assert (
        0 < given["after"]["charged"]["mu"] == pytest.approx(account.state().total.squares ** 0.5)
    )


@pytest.fixture
def table(tmp_path):
    (tmp_path / "bounds.toml").write_text(bounds_of_ill(age="min = 0\nmax = 100"))
    rows = [f"{age},{'yes' if age > 50 else 'no'}" for age in range(20, 90)]
    (tmp_path / "t.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    rows[7] = "SECRET,no"
    (tmp_path / "bad.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    return tmp_path


def trained(table, name, *more):
    options = ["--target", "ill", "--bounds", str(table / "bounds.toml"), "--epsilon", "0.5",
               "--delta", "1e-3", "--rounds", "2", "--agents", "2", "--quiet"]  # fmt: skip
    return main(["train", str(table / name), *options, *more])


def test_a_table_is_charged_before_its_cells_are_read_and_a_bad_cell_returns_nothing(
    table, tmp_path, capsys
):
    account = opened(tmp_path, delta=1e-2)
    folder = ["--accounts", str(account.folder)]
    assert trained(table, "t.csv", "--account", "one", *folder, "--json") == 0
    given = json.loads(capsys.readouterr().out)["account"]
    assert given["before"]["charged"]["mu"] == 0 < given["after"]["charged"]["mu"]
    assert trained(table, "bad.csv", "--account", "one", *folder) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "row 8" in error
    assert "SECRET" not in error
    assert [one.status for one in account.state().runs] == ["released", "failed"]
    # the file is known to this account, and another one is charged only if that is meant
    open_account("two", Guarantee(3.0, 1e-2), AccountTerms(), folder=account.folder)
    assert trained(table, "t.csv", "--account", "two", *folder) == 2
    said = capsys.readouterr().err
    assert "was charged to account 'one'" in said
    assert "--another-account" in said
    assert Account("two", account.folder).state().runs == ()
    assert trained(table, "t.csv", "--account", "two", *folder, "--another-account") == 0
    salts = {Account(name, account.folder).state().salt for name in ("one", "two")}
    files = {Account(n, account.folder).state().runs[0].files for n in ("one", "two")}
    assert len(salts) == len(files) == 2


@pytest.mark.parametrize(
    "more",
    [
        "--account missing", "--account ../one", "--account one --seed 0",
        "--account one --epsilon inf", "--account one --rounds 0",
        "--account one --relation zero_out --algorithm dp-sgd", "--account one --target age",
        "--account one --agents 1000", "",
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_charges_nothing(more, table, tmp_path, capsys):
    account = opened(tmp_path, delta=1e-2)
    before = sorted(tmp_path.rglob("*"))
    assert trained(table, "t.csv", *more.split(), "--accounts", str(account.folder)) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(said) == 1
    assert account.state().runs == ()
    written = set(tmp_path.rglob("*")) - set(before)
    assert {file.suffix for file in written} <= {".account-wal", ".account-shm"}


def command(*words):
    return main(["budget", *words])


def test_an_account_is_opened_raised_shown_listed_and_exported(tmp_path, capsys):
    folder = ["--accounts", str(tmp_path / "a")]
    assert command("list", *folder) == 0
    assert "There is no account" in capsys.readouterr().out
    assert command("open", "study", "--epsilon", "1", "--delta", "1e-5", *folder) == 0
    assert "epsilon 1 at delta 1e-05, for all of its runs" in capsys.readouterr().out
    assert command("raise", "study", "--epsilon", "2", "--curves", "0.2", *folder) == 0
    assert "is replaced" in capsys.readouterr().err
    assert command("show", "study", "--json", *folder) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == 2
    assert command("list", *folder) == 0
    assert "study" in capsys.readouterr().out
    assert command("export", "study", *folder) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["number"] == 2
    assert command("accept", "study", *folder) == 0
    # the old name of what noise costs hints at the one that it has now
    assert main(["account", "gaussian"]) == 2
    assert "it is called cost now" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "open one --epsilon 9 --delta 1e-5", "open b/c --epsilon 1 --delta 1e-5",
        "open b --epsilon nan --delta 1e-5", "open b --epsilon 1 --delta 0",
        "open b --epsilon 1 --delta 1e-5 --relation near",
        "open b --epsilon 1 --delta 1e-5 --unit row", "open b --epsilon 1",
        "raise one", "raise one --epsilon 1", "raise none --epsilon 9", "show none",
        "export none", "accept none", "lend one",
    ],
)  # fmt: skip
def test_bad_input_of_the_budget_is_one_line_and_writes_nothing(words, tmp_path, capsys):
    account = opened(tmp_path)
    before = account.state()
    files = {f for f in tmp_path.rglob("*") if f.suffix in {".account", ".head"}}
    assert command(*words.split(), "--accounts", str(account.folder)) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert account.state() == before
    assert {f for f in tmp_path.rglob("*") if f.suffix in {".account", ".head"}} == files


@pytest.mark.slow
@pytest.mark.parametrize("problem", [["balance", "--rounds", "3"], ["opf"]])
def test_power_flow_is_charged_under_its_own_relation(tmp_path, capsys, problem):
    account = opened(tmp_path, epsilon=5.0, relation="target_change:0.01")
    options = ["--beta", "0.01", "--epsilon", "1", "--delta", "1e-6", "--problem", *problem]
    charged = [*options, "--account", "one", "--accounts", str(account.folder)]
    assert main(["grid", "case14", *charged]) == 0
    assert "Account: one" in capsys.readouterr().out
    charged[1] = "0.02"
    assert main(["grid", "case14", *charged]) == 2
    assert "do not compose" in capsys.readouterr().err
    assert len(account.state().runs) == 1


@pytest.mark.parametrize("observer", [Messages(), Sum(0)])
def test_a_person_at_several_agents_is_charged_across_them(observer):
    """Planted fault: the dearest agent alone, as for a person who is at one."""
    ledger = book([0.25, 0.5, 0.5], 2, scale=(4.0, 4.0, 1.0))

    def charged(agents):
        terms = Terms(9.0, 1e-5, person(5, agents), observer)
        leg = leg_of(ledger, terms.adjacency, observer)
        charge = charge_of_legs(compose((leg,), terms))
        account = AccountTerms(
            unit="person", observer="sum" if observer != Messages() else "messages", colluders=0
        )
        runs = [dataclasses.replace(charge, partition=name) for name in ("a", "a", None)]
        assert charge.values == ledger.most_values() * agents
        return [total_of(account, 2, runs[:k]).squares for k in (1, 3)]

    for agents in (1, 2, 3):
        whole = ledger.mu_across(observer, agents) ** 2
        one, three = charged(agents)
        assert whole <= one <= whole * (1 + 1e-7)
        assert 3 * whole <= three <= 3 * whole * (1 + 1e-7)
    assert charged(1)[0] < ledger.mu_across(observer, 2) ** 2 * 0.9
    terms = Terms(9.0, 1e-5, person(5, 2), observer)
    with pytest.raises(InputError, match="person at several agents"):
        compose((leg_of(book([0.5] * 3, 2, Laplace()), terms.adjacency),), terms)


def with_other_columns(table):
    text = (table / "t.csv").read_text()
    (table / "other.csv").write_text(text.replace("age", "pay", 1))
    (table / "bounds.toml").write_text(bounds_of_ill(pay="min = 0\nmax = 120"))


def test_a_table_with_other_columns_is_refused_where_nobody_can_be_asked(table, tmp_path, capsys):
    account = opened(tmp_path, delta=1e-2)
    given = ["--account", "one", "--accounts", str(account.folder)]
    assert trained(table, "t.csv", *given) == 0
    capsys.readouterr()
    with_other_columns(table)
    assert trained(table, "other.csv", *given) == 2
    assert "other columns" in capsys.readouterr().err
    assert len(account.state().runs) == 1
    assert trained(table, "other.csv", *given, "--another-table") == 0
    assert len(account.state().charged) == 2


@pytest.mark.parametrize(("answered", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2)])
def test_a_user_at_a_terminal_is_asked_about_another_table(
    table, tmp_path, capsys, monkeypatch, answered, code
):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    account = opened(tmp_path, delta=1e-2)
    given = ["--account", "one", "--accounts", str(account.folder)]
    assert trained(table, "t.csv", *given) == 0
    with_other_columns(table)
    monkeypatch.setattr("sys.stdin", Terminal(answered))
    monkeypatch.setattr("sys.stderr", Terminal())
    assert trained(table, "other.csv", *given) == code
    assert len(account.state().charged) == 1 + (code == 0)


def test_an_estimator_charges_an_account_of_its_columns_only(tmp_path):
    account = opened(tmp_path, delta=1e-2)
    draw = np.random.default_rng(0)
    x, y = draw.uniform(0, 1, (60, 2)), draw.integers(0, 2, 60)
    model = PrivateLogisticRegression(
        epsilon=0.5, delta=1e-3, bounds=(0, 1), classes=[0, 1], rounds=2, account=account
    ).fit(x, y)
    model.fit(1 - x, y)
    with pytest.raises(AccountError, match=r"other columns.*2 fits of this process"):
        model.fit(x[:, :1], y)
    with pytest.raises(AccountError, match="other columns"):
        model.fit(pd.DataFrame(x, columns=["a", "b"]), y)
    model.set_params(account=dataclasses.replace(account, another_table=True))
    model.fit(x[:, :1], y)
    assert len(account.state().charged) == 3
