"""Attacks on the road from files to a release: counts, charges and what is looked at before."""

import os
import threading

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import taciturn
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.errors import InputError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.problems import Named
from taciturn.problems.losses import MarginLoss
from taciturn.tables import Source, digest_of, read_files
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training import Division, Request, StructureRequest, count_files
from taciturn.training.tuning import propose_choice, tune

KNOWN = bounds_from_dict(
    {
        "source": "public",
        "target": {"name": "ill", "values": ["no", "yes"]},
        "columns": {"age": {"min": 0, "max": 99}},
    }
)
ROWS = [f"{k % 90},{'yes' if k % 3 else 'no'}" for k in range(60)]


def counted(path, **division):
    source = Source(path=path, target="ill", bounds=None)
    return count_files(Division(**division), read_files(source, KNOWN))


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["age,ill", *ROWS]) + "\n")
    return file


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_two_names_of_one_file_are_not_two_agents(link, table, tmp_path):
    (tmp_path / "folder").mkdir()
    first = tmp_path / "folder" / "2024.csv"
    first.write_bytes(table.read_bytes())
    link(first, tmp_path / "folder" / "latest.csv")
    with pytest.raises(InputError, match=r"latest\.csv and 2024\.csv are one file"):
        counted(tmp_path / "folder")


def test_one_agent_saved_in_two_formats_is_not_two(table, tmp_path):
    (tmp_path / "folder").mkdir()
    for end in ("csv", "parquet"):
        (tmp_path / "folder" / f"mercy.{end}").write_bytes(table.read_bytes())
    with pytest.raises(InputError, match="two files called 'mercy'"):
        counted(tmp_path / "folder")


def test_an_account_is_told_the_digest_of_what_a_pipe_had(table, tmp_path):
    """Planted fault: to open the pipe again, which waits for ever or finds it empty."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(table.read_bytes()))
    writer.start()
    data = counted(pipe)
    writer.join()
    assert [file.digest for file in data.files] == [digest_of(table)]


@taciturn.register
class Claimed(MarginLoss):
    """A loss whose properties are its author's word."""

    smoothness = 0.25

    def value(self, margins, targets):
        return jnp.logaddexp(0.0, -targets * margins)


@pytest.fixture
def choice(table):
    """A choice between a loss of the library and one on its author's word, in this order."""
    data = counted(table, agents=1)
    several = [
        (
            loss,
            Request(
                epsilon=1.0, delta=1e-5, rounds=2, loss=Named.parse("loss", loss), centre=False
            ),
            StructureRequest(),
        )
        for loss in ("logistic", f"{__name__}:Claimed")
    ]
    return data, propose_choice(data.facts, data.all_counts, several, share=0.2)


def test_a_choice_on_an_authors_word_is_charged_to_no_account(choice, tmp_path, monkeypatch):
    """A training alone is refused; so are candidates."""
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", Guarantee(3.0, 1e-4), AccountTerms(), folder=tmp_path)
    with pytest.raises(InputError, match="author's word"):
        tune(*choice, account=account)
    assert not account.state().charged


def test_candidates_state_the_conditions_of_those_that_follow_and_lost_files_are_named(choice):
    """Each is handed over under the certificate of everything, before the next is trained."""
    stated = []

    def release(number, training):
        stated.append((training.certificate.conditional, set(training.certificate.conditions)))
        raise InputError("the disk is full")

    found = tune(*choice, release=release)
    assert stated[0] == stated[1]
    assert stated[0][0]
    assert [line.split(" failed")[0] for line in found.training.failures] == [
        f"candidate {number}: writing what was released" for number in (1, 2)
    ]


def test_counting_the_rows_of_a_parquet_file_converts_no_cell(tmp_path):
    """A day that no calendar has: an error before the charge would depend on that cell."""
    days = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"age": days, "ill": ["no", "yes"]}), path)
    data = counted(path, agents=1)
    assert data.all_counts == (2,)
    with pytest.raises(InputError, match=r"cannot be read"):
        data.load(data.division, taciturn.kernel.records.Draw.secret(), "float32", None)


@pytest.mark.parametrize("agents", [2, ["a", "b"] * 30])
def test_arrays_that_are_dealt_have_the_conditions_of_an_estimator(agents):
    rows = np.random.default_rng(0).uniform(0, 1, (60, 2))
    labels = np.where(rows[:, 0] > 0.5, 1, -1)
    public = {"bounds": (0, 1), "classes": [-1, 1], "epsilon": 1.0, "delta": 1e-3, "rounds": 1}
    fitted = PrivateLogisticRegression(**public).fit(rows, labels, agents=agents)
    owners = taciturn.deal(rows, labels, agents=agents, bounds=(0, 1))
    stated = set(fitted.certificate_.conditions)
    assert len(stated & set(owners.conditions)) == len(owners.conditions) - 1  # bounds: other words


def test_columns_of_one_name_are_refused_before_a_fit_is_charged(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("one", Guarantee(3.0, 1e-2), AccountTerms(), folder=tmp_path)
    rows = pd.DataFrame(np.zeros((60, 2)), columns=["age", "age"])
    public = {"bounds": (0, 1), "classes": [0, 1], "epsilon": 1.0, "delta": 1e-3, "rounds": 1}
    with pytest.raises(InputError, match="two columns called 'age'"):
        PrivateLogisticRegression(**public, account=account).fit(rows, np.arange(60) % 2)
    assert not account.state().charged
