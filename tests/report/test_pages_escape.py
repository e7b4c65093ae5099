"""No name from outside becomes markup, on any kind of page."""

import dataclasses
import html
import math

import numpy as np
import pytest
from tests.federation.studies import make_study

from conftest import trained_on
from taciturn.datasets import load
from taciturn.report import page as page_room
from taciturn.report.page import Bars, Details, Drawing, Items, Note, Page, Section, Table
from taciturn.report.training import training_page
from taciturn_federation import Outcome, RunReport
from taciturn_power import Settings, bundled_case, central, chosen_zones, grid, network, relax
from taciturn_power.dispatch.page import opf_page
from taciturn_power.dispatch.results import DayReport, OpfReport
from taciturn_power.dispatch.series import Series
from taciturn_power.dispatch.study import DayProposal, OpfProposal, solve_opf
from taciturn_power.models.cost import costs
from taciturn_power.state.page import GridReport, grid_page
from taciturn_power.state.study import GridProposal, run_proposal

HOSTILE = "<script>alert(1)</script>"
BUDGET = {"beta": 0.01, "epsilon": 1.0, "delta": 1e-3}
TITLE, COLUMN, AGENT = (f"{what}{HOSTILE}" for what in ("title", "column", "agent"))
WARNING = f"the {COLUMN} of {AGENT} is constant"


def page_of_training(folder):
    training = trained_on(load("breast_cancer"), agents=3, epsilon=2.0, delta=1e-5, rounds=2)
    label = f"label{HOSTILE}"
    assessment = dataclasses.replace(
        training.metrics.assessment, baseline=label, recall=((label, 0.5),)
    )
    return training_page(
        dataclasses.replace(
            training,
            dataset=dataclasses.replace(training.dataset, title=TITLE, source=AGENT),
            metrics=dataclasses.replace(training.metrics, assessment=assessment),
            warnings=(WARNING,),
        )
    )


def fourteen():
    case = dataclasses.replace(bundled_case("case14"), name=TITLE, ignored=(COLUMN,))
    return case, network(case), chosen_zones(network(case), None)


def page_of_dispatch(folder):
    case, net, zones = fourteen()
    settings = {"hide": "demand", "model": "dc", "eta": 0.05, **BUDGET}
    study = solve_opf(net, OpfProposal.of(net, costs(case), zones, **settings), seed=1)
    return opf_page(OpfReport(study, (WARNING,), case, net.demand[None]))


def page_of_a_day(folder):
    case, net, zones = fourteen()
    settings = {"hide": "demand", "model": "dc", "eta": None, **BUDGET, "smooth": False}
    steps = {"first_hour": 0.0, "step_hours": 12.0, "weights": (1.0, 1.0)}
    series = Series(np.array([0.0, 12.0]), np.stack([net.demand, net.demand]))
    proposal = DayProposal.of(net, costs(case), zones, **settings, **steps)
    study = solve_opf(net, proposal, series, seed=1)
    return opf_page(DayReport(study, (WARNING,), case, series.demand))


def page_of_a_state(folder):
    _, net, zones = fourteen()
    relaxation = relax(net)
    prepared = grid(relaxation, zones)
    proposal = GridProposal.of(prepared, Settings("demand", 2, 1), **BUDGET)
    optimum = central(relaxation, relaxation.demand)
    flow = run_proposal(prepared, proposal, seed=1)
    return grid_page(GridReport(flow, (WARNING,), "a case", optimum, False, (WARNING,)))


def page_of_a_study(folder, agent=0):
    """The proposal of a study refuses such names; a page does not rely on that."""
    signed = make_study(folder).signed
    sites = tuple(one.model_copy(update={"name": AGENT}) for one in signed.participants)
    signed = signed.model_copy(update={"study": TITLE, "participants": sites})
    outcome = Outcome("abandoned", WARNING)
    return RunReport(signed=signed, plan=signed.proposal.plan(), outcome=outcome, score=None,
                     seconds=1.0, agent=agent).page()  # fmt: skip


def page_of_a_coordinator(folder):
    return page_of_a_study(folder, agent=None)


KINDS = (
    page_of_training, page_of_dispatch, page_of_a_day, page_of_a_state, page_of_a_study,
    page_of_a_coordinator,
)  # fmt: skip


@pytest.mark.parametrize("made", KINDS, ids=lambda made: made.__name__)
def test_hostile_names_are_text_on_every_kind_of_page(made, tmp_path):
    page = made(tmp_path).html()
    assert "<script" not in page
    for name in (TITLE, COLUMN, AGENT):
        assert html.escape(name) in page


def everywhere(text):
    """A page that has a text in every place."""
    cells = (text, text)
    parts = (
        text, Note(text), Items(cells), Table((cells,)), Table((cells,), cells, text, "numbers"),
        Drawing("<svg></svg>", text), Bars(((text, 0.2, 0.4),)), Details(text, (text, Note(text))),
    )  # fmt: skip
    sections = (Section(text, parts, text, "box"),)
    return Page(title=text, story=cells, stamps=cells, sections=sections, footer=text)


def test_a_text_is_escaped_wherever_it_stands():
    page, plain = everywhere(HOSTILE).html(), everywhere("plain").html()
    assert "<script" not in page
    assert page.count(html.escape(HOSTILE)) == plain.count("plain")
    assert page.replace(html.escape(HOSTILE), "plain") == plain


def test_a_template_that_does_not_escape_is_seen(monkeypatch):
    monkeypatch.setattr(page_room.jinja2, "Environment", unescaped(page_room.jinja2.Environment))
    page_room._template.cache_clear()
    try:
        assert "<script" in everywhere(HOSTILE).html()
    finally:
        page_room._template.cache_clear()


def unescaped(environment):
    return lambda **given: environment(**given | {"autoescape": False})


def test_bars_end_where_their_caps_do():
    page = Page(
        title="t", story=("s",), sections=(Section("x", (Bars((("cap", 0.5, math.inf),)),)),)
    )
    assert 'x="220.0" y="2" width="150.0"' in page.html()
