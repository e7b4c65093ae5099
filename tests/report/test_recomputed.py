"""Certificates are computed again from their legs alone, and what was edited is refused."""

import copy
import json

import pytest
from tests.privacy.test_certificate_files import PLANNED, derived, mutations, of_proposal
from tests.proposal.proposals import examples

from taciturn.certificates import document_of
from taciturn.errors import InputError, TaciturnError
from taciturn.report.recomputed import certificate_of, recomputed

# cheap to plan, and each with another kind of question, noise, unit or part
SOME = ("laplace", "agents", "persons across, sum", "claimed", "unbounded", "poisson zero_out")
PROPOSED = ("evaluated", "no privacy", "sum", "gossip", "objective-perturbation")
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


def document(certificate):
    text = json.dumps(document_of(certificate), allow_nan=False)
    said = {"conditions": list(certificate.conditions), "statement": certificate.lines()}
    return {**json.loads(text), **said}


@pytest.fixture(scope="module")
def files(request):
    every = request.config.getoption("-m") != "not slow"
    planned = PLANNED if every else {name: PLANNED[name] for name in SOME}
    proposed = examples()
    proposed = proposed if every else {k: v for k, v in proposed.items() if k in PROPOSED}
    made = {name: make() for name, make in planned.items()}
    made |= {name: of_proposal(one) for name, one in proposed.items()}
    return {name: document(one) for name, one in made.items()}


def test_every_certificate_is_computed_again_to_its_own_sentences(files):
    assert len(files) >= 10
    for name, file in files.items():
        found = recomputed(file)
        assert sorted((*found.lines, *found.stated)) == sorted(file["statement"]), name


def refused(file):
    try:
        recomputed(file)
    except (TaciturnError, *MALFORMED):
        return True
    return False


def test_no_certificate_with_another_number_is_computed_again(files):
    every = {name: file for name, file in files.items() if derived(file)}
    tried = [one for one in mutations(every, 150) if not without_effect(*one)]
    assert len(tried) >= 100
    assert [(name, path) for name, path, file in tried if not refused(file)] == []


def without_effect(name, path, file):
    """Whether nothing follows from a number: how many records an agent has that all change."""
    del name
    return file["terms"].get("unit") == "agent" and "records" in path


def edited(file, edit):
    copied = copy.deepcopy(file)
    edit(copied)
    return copied


@pytest.mark.parametrize(
    "edit",
    [
        lambda file: file["legs"].pop(),
        lambda file: file["legs"].append(file["legs"][0]),
        lambda file: file["conditions"].pop(),
        lambda file: file["statement"].pop(),
        lambda file: file["statement"].append("Protected: everybody, for ever."),
        lambda file: file["terms"].update(relation="zero_out"),
        lambda file: file["terms"].update(dealt=True),
        lambda file: file["claim"].update(conditional=True, mu=None),
        lambda file: file["claim"].update(reproduction=True),
        lambda file: file.update(observer="nobody"),
        lambda file: file["legs"][0].update(observer={"name": "sum", "colluders": 0}),
    ],
)
def test_a_certificate_of_two_parts_is_not_computed_again_once_it_is_edited(files, edit):
    assert refused(edited(files["evaluated"], edit))


def restated(file):
    """The file with the figures, conditions and sentences that its legs are taken to give."""
    claim = {"reproduction": False, "conditional": False}
    found = certificate_of({**file, "conditions": [], "statement": [], "claim": claim})
    return document(found)


def answers(file):
    return [one for leg in file["legs"] for slot in leg["slots"] for one in slot["answers"]]


def question(change, share=1.0):
    """An edit of the questions of the first leg, and of its sensitivities in step."""

    def edit(file):
        for one in file["legs"][0]["questions"]:
            one.update(change)
        for answer in answers(file):
            answer["sensitivity"] *= share

    return edit


CONSISTENT = {
    "claimed by nobody": ("claimed", question({"by": []}, 0.01)),
    "claimed by no word": ("claimed", lambda file: file["legs"][0]["questions"][0].pop("by")),
    "no question": ("agents", lambda file: [one.update(question=-1) for one in answers(file)]),
    "an infinite divisor": ("agents", question({"curvature": "infinity"}, 0.0)),
    "less than rounding": ("agents", question({"widened": -0.999}, 0.001)),
    "a fact of another kind": ("agents", question({"steps": 1})),
    "facts below 0": ("agents", question({"coefficient": -1.0, "row": -1.0})),
    "an agent twice": ("agents", lambda file: answers(file)[0].update(agents=[[0, 1], [1, 3]])),
    "more answers than there can be": (
        "agents",
        lambda file: file["legs"][0]["slots"][0].update(times=10**12),
    ),
    "more agents than there can be": (
        "agents",
        lambda file: file["legs"][0].update(records=[[10**12, 12]]),
    ),
}


@pytest.mark.parametrize("edit", CONSISTENT)
def test_what_is_not_specified_is_refused_though_all_else_follows_from_it(files, edit):
    name, change = CONSISTENT[edit]
    file = copy.deepcopy(files[name])
    change(file)
    with pytest.raises((TaciturnError, *MALFORMED)):
        recomputed(restated(file))


def test_a_text_is_no_number(files):
    with pytest.raises(TypeError):
        recomputed(edited(files["agents"], lambda file: file["terms"].update(delta="1e-05")))


@pytest.mark.parametrize("value", [1, "yes", None])
@pytest.mark.parametrize("place", [("terms", "dealt"), ("claim", "reproduction")])
def test_a_truth_value_is_one(files, place, value):
    whole, name = place
    with pytest.raises(TypeError):
        recomputed(edited(files["agents"], lambda file: file[whole].update({name: value})))


def test_answers_on_no_lattice_are_not_said_to_be_those_that_are_computed(files):
    def edit(file):
        for answer in answers(file):
            answer.pop("step")

    file = edited(files["agents"], edit)
    said = restated(file)
    recomputed(said)
    line = next(line for line in file["statement"] if line.startswith("Arithmetic: "))
    said["statement"] = [
        line if one.startswith("Arithmetic: ") else one for one in said["statement"]
    ]
    with pytest.raises(InputError, match="sentences"):
        recomputed(said)


def test_a_bound_on_somebodys_word_stays_conditional(files):
    file = edited(files["claimed"], lambda file: file["claim"].update(conditional=False))
    head = "Conditional (see the conditions): "
    file["statement"] = [line.removeprefix(head) for line in file["statement"]]
    with pytest.raises(InputError, match="conditional on the claim of a question's author"):
        recomputed(file)


def test_the_law_of_noise_decides_what_is_computed(files):
    file = files["evaluated"]
    assert certificate_of(file).epsilon == file["claim"]["epsilon"]
    louder = copy.deepcopy(file)
    for leg in louder["legs"]:
        for answer in (one for slot in leg["slots"] for one in slot["answers"]):
            answer["scale"] *= 2
    assert certificate_of(louder).mu == pytest.approx(file["claim"]["mu"] / 2, rel=1e-6)
