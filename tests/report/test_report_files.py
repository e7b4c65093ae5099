"""Reports: strict JSON, a self-contained page, written whole or not at all."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from conftest import just_below, trained_on
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.kernel.privacy.certificate import SCOPE
from taciturn.models import model_to_dict
from taciturn.report import check_out, results, save, strict
from taciturn.report.save import CURVES, FILES
from taciturn.report.training import training_page
from taciturn.training import Metrics, Training, released

# the package hands on a function of that name
saving = importlib.import_module("taciturn.report.save")


def page(training):
    return training_page(training).html()


def trained(**changes):
    asked = {"agents": 5, "epsilon": 2.0, "delta": 1e-5, "rounds": 6}
    return trained_on(load("breast_cancer"), **asked | changes, reference=True)


@pytest.fixture(scope="module")
def training() -> Training:
    return trained()


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def strictly(text):
    return json.loads(text, parse_constant=refuse)


def certified(training, **changes):
    """The same training with another certificate."""
    certificate = dataclasses.replace(training.certificate, **changes)
    plan = dataclasses.replace(training.plan, certificate=certificate)
    return dataclasses.replace(training, plan=plan)


def assessed(training, **changes):
    """The same training with other figures on the test records, and no other warnings."""
    assessment = dataclasses.replace(training.metrics.assessment, **changes)
    metrics = dataclasses.replace(training.metrics, assessment=assessment)
    return dataclasses.replace(training, metrics=metrics, warnings=())


def without_privacy(training):
    """The same training with the certificate of a run without noise."""
    return certified(training, epsilon=math.inf, mu=math.inf, attacker_tpr=1.0)


def test_results_carry_the_certified_totals_and_the_curves(training, tmp_path):
    save(training, tmp_path / "r", force=False)
    values = strictly((tmp_path / "r" / "results.json").read_text())
    curves = values.pop("curves")
    assert values == results(training, tmp_path / "r")
    assert just_below(values["epsilon"], 2.0)
    assert values["mu"] == training.certificate.mu
    assert (values["algorithm"], values["agents"], values["rounds"]) == ("noisy-gradient", 5, 6)
    assert (values["relation"], values["unit"], values["observer"]) == (
        "replace_one", "record", "messages",
    )  # fmt: skip
    assert not values["reproduction"]
    assert len(curves["test_error"]) == len(curves["test_loss"]) == 6
    assert curves["test_error"][-1] == values["test_error"]
    assert 0 <= values["nonprivate_test_error"] < 0.2


def test_the_plan_file_repeats_the_digest_and_is_strict_even_without_noise(training, tmp_path):
    noiseless = trained(epsilon=math.inf, rounds=2)
    save(noiseless, tmp_path / "r", force=False)
    plan = strictly((tmp_path / "r" / "plan.json").read_text())
    assert plan["digest"] == noiseless.plan.digest
    assert plan["certificate"]["epsilon"] == "infinity"
    values = strictly((tmp_path / "r" / "results.json").read_text())
    assert values["epsilon"] == values["mu"] == "infinity"
    assert "no privacy" in (tmp_path / "r" / "report.html").read_text()


def test_strict_json_has_no_constants_that_parsers_refuse():
    values = {
        "a": (math.inf, -math.inf, math.nan),
        "b": np.float32(0.5),
        3: np.arange(2),
        "c": Path("x"),
    }
    text = json.dumps(strict(values), allow_nan=False)
    expected = {"a": ["infinity", "-infinity", "undefined"], "b": 0.5, "3": [0, 1], "c": "x"}
    assert strictly(text) == expected


class Tags(HTMLParser):
    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.references, self.names = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.references += [v for k, v in attrs if k in {"src", "href", "xlink:href"} and v]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing_from_elsewhere(training):
    text = page(training)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "svg" in tags.names
    assert not tags.names & {"script", "link", "img", "iframe"}
    assert all(reference.startswith("#") for reference in tags.references)
    assert all(target.startswith("#") for target in re.findall(r"url\((.*?)\)", text))
    assert "@import" not in text


def test_the_page_says_what_was_promised_and_how_well_it_went(training):
    text = page(training)
    assert "epsilon = 2.0000, delta = 1e-05" in text
    assert f"{training.certificate.mu:.4g}" in text
    for needed in (
        training.certificate.record,
        training.certificate.trust,
        *training.certificate.conditions,
        SCOPE,
        training.dataset.licence,
        training.dataset.source,
        training.plan.digest,
        "1% false",
        "Oracle metrics",
        "docs/explanation/threat-model.md",
        f"{100 * training.metrics.test_error:.2f} %",
        f"{100 * training.nonprivate.test_error:.2f} %",
    ):
        assert needed.replace("'", "&#39;") in text
    of_use = assessed(training, gain=0.3, gain_error=0.05, auc=0.9, auc_error=0.05)
    assert 'class="stamp"' not in page(of_use)


def test_the_page_and_the_results_say_that_a_model_is_of_no_use(training):
    useless = assessed(training, gain=0.0, gain_error=0.0, auc=0.4, auc_error=0.05)
    text, values = page(useless), results(useless, None)
    stamped = re.findall(r'class="stamp">(.*?)<', text)
    assert [line.split(":")[1].split()[0] for line in stamped] == ["the", "AUC"]
    assert "is no better than always answering" in stamped[0]
    assert values["assessment"]["better"] is False
    assert len(values["warnings"]) == 2
    assert values["warnings"] == list(useless.metrics.assessment.warnings)
    baseline = values["assessment"]["baseline_error"]
    assert f"<td>{100 * baseline:.2f} %</td>" in text
    assert "recall of" in text
    assert "The baseline always answers" in text


def test_what_is_said_of_test_records_is_shown_where_their_error_is(training):
    closed = dataclasses.replace(
        training, dataset=dataclasses.replace(training.dataset, public=False), warnings=()
    )
    assert training.assessment is not None
    assert closed.assessment is None
    assert closed.all_warnings == ()
    values = results(closed, None)
    assert values["assessment"] is values["nonprivate_assessment"] is None
    assert released(closed).assessment is None
    assert released(training).assessment["error"] == training.metrics.test_error
    assert results(training, None)["nonprivate_assessment"]["auc"] > 0.9


def test_a_given_seed_is_stamped_on_the_page_and_in_the_results(training):
    seeded = certified(training, reproduction=True)
    stamp = re.search(r'class="stamp">(.*?)<', page(seeded))
    assert stamp
    assert stamp.group(1).startswith("reproduction, not private")
    assert "if the noise were secret" in page(seeded)
    assert results(seeded, None)["reproduction"] is True


def test_a_conditional_certificate_begins_with_the_word_on_the_page_and_in_the_model(training):
    assert "Conditional" not in page(training)
    conditional = certified(training, conditional=True)
    assert '<p class="figures">Conditional: epsilon = 2.0000' in page(conditional)
    statement = model_to_dict(released(conditional))["statement"]
    assert statement[0].startswith("Conditional")
    assert any("this run alone" in line for line in statement)


def test_no_noise_is_stamped_as_no_privacy(training):
    text = page(without_privacy(training))
    assert '<p class="stamp">no privacy' in text
    assert "epsilon = infinity: no privacy" in text
    assert "Private training" not in text


def test_epsilon_on_the_page_is_never_rounded_down(training):
    assert "epsilon = 1.0001" in page(certified(training, epsilon=1.00001))


def test_a_page_about_data_that_is_not_public_does_not_depend_on_metrics(training, tmp_path):
    closed = dataclasses.replace(
        training, dataset=dataclasses.replace(training.dataset, public=False)
    )
    better = Metrics(test_error=0.01, test_loss=0.02, train_loss=0.03, train_error=0.04)
    curves = {name: np.full_like(curve, 0.05) for name, curve in training.curves.items()}
    other = {"metrics": better, "nonprivate": better, "curves": curves}
    assert page(dataclasses.replace(training, **other)) != page(training)
    assert page(dataclasses.replace(closed, **other)) == page(closed)
    values = results(dataclasses.replace(closed, **other), None)
    assert values == results(closed, None)
    figures = ("test_error", "test_loss", "train_loss", "nonprivate_test_error")
    assert {values[name] for name in figures} == {None}
    save(closed, tmp_path / "r", force=False)
    assert strictly((tmp_path / "r" / "results.json").read_text())["curves"] == {}
    assert "Oracle metrics" not in page(closed)


def test_force_replaces_a_report_of_ours(training, tmp_path):
    out = tmp_path / "r"
    save(training, out, force=False)
    before = (out / "results.json").read_text()
    with pytest.raises(InputError, match="--force"):
        save(training, out, force=False)
    other = dataclasses.replace(training, seconds=123.0)
    save(other, out, force=True)
    assert (out / "results.json").read_text() != before
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_force_leaves_everything_else_in_the_folder_alone(training, tmp_path):
    out = tmp_path / "work"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    (out / "results.json").write_text("old")
    with pytest.raises(InputError, match="--force"):
        check_out(out, force=False)
    save(training, out, force=True)
    assert (out / "thesis.tex").read_text() == "years of work"
    assert (out / "results.json").read_text() != "old"
    kept = {"thesis.tex", "certificate-1.json"}
    assert {p.name for p in out.iterdir()} == {CURVES, *FILES, *kept}


def test_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for force in (False, True):
        with pytest.raises(InputError, match="is a file"):
            check_out(file, force=force)
        with pytest.raises(InputError, match="not a folder"):
            check_out(file / "below", force=force)


def test_a_folder_that_exists_is_written_from_inside_and_holds_its_files_alone(
    training, tmp_path, monkeypatch
):
    """Its parent may belong to another file system, or to somebody else."""
    places, move = [], saving._move

    def spy(part, target, gone):
        places.append(part.parent)
        move(part, target, gone)

    check_out(tmp_path / "a" / "b", force=False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(saving, "_move", spy)
    save(training, tmp_path, force=False)
    assert set(places) == {tmp_path.resolve()}
    assert {p.name for p in tmp_path.iterdir()} == {CURVES, *FILES, "certificate-1.json"}


@pytest.mark.parametrize(("error", "earlier"), [(KeyboardInterrupt, False), (OSError, True)])
def test_a_failed_write_leaves_what_was_there_before(
    training, tmp_path, monkeypatch, error, earlier
):
    out = tmp_path / "r"
    if earlier:
        save(training, out, force=False)
    before = {p.name: p.read_bytes() for p in out.iterdir()} if earlier else None
    opener = saving.private_opener

    def full(path, flags):
        if Path(path).name == "report.html":
            raise error(28, "No space left on device")
        return opener(path, flags)

    monkeypatch.setattr(saving, "private_opener", full)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError):
        save(dataclasses.replace(training, seconds=9.0), out, force=True)
    assert [p.name for p in tmp_path.iterdir()] == (["r"] if earlier else [])
    if earlier:
        assert {p.name: p.read_bytes() for p in out.iterdir()} == before
