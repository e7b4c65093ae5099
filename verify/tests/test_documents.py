"""The verifier in Python on certificates made by hand: true ones follow, and no others."""

import json
import math
from functools import cache

import certificate_makers as makers
import pytest
from certificate_makers import BOUNDED, EXACT, change, claim, list_answers, list_false

from taciturn_verify import verify
from taciturn_verify.command import main
from taciturn_verify.reading import parse


def find_bounds(document):
    """Return the bounds that a verifier finds of a claim, from its refusal of a claim of 600."""
    return verify(claim(document, 600.0)).figures["epsilon"]


@cache
def find_document(name):
    """Return the true certificate of that name, which claims its epsilon."""
    if name in EXACT:
        return EXACT[name]
    return claim(BOUNDED[name], find_bounds(BOUNDED[name])[1] / 1.005)


@pytest.mark.parametrize("name", [*EXACT, *BOUNDED])
def test_a_true_certificate_follows_and_none_with_one_false_field(name):
    found = verify(parse(json.dumps(find_document(name))))
    assert found.verdict == "follows", found.reason
    false = list_false(name, find_document(name))
    assert len(false) > 60
    accepted = [path for path, other in false if verify(other).verdict != "does not follow"]
    assert accepted == []


def test_what_is_unusual_has_its_verdict():
    for name, document, expected in makers.list_verdicts():
        found = verify(document)
        assert found.verdict == expected, (name, found.reason)


def test_laplace_noise_is_claimed_at_the_cost_of_its_composition():
    answers = [(400, [makers.make_answer(2.0, 100.0)])]
    document = makers.make_document(
        [makers.make_leg([makers.TALLY], answers, noise="laplace", values=1)], 8.0
    )
    assert verify(document).verdict == "does not follow"
    bounds = find_bounds(document)
    assert 1 < bounds[0] < bounds[1] < 3
    assert verify(claim(document, bounds[1] / 1.005)).verdict == "follows"
    for wrong in (bounds[0] * 0.99, bounds[1] * 1.01, 7.9, 8.1):
        assert verify(claim(document, wrong)).verdict == "does not follow"


def test_what_has_no_rule_or_cannot_be_decided_is_said():
    tiny = change(find_document("poisson zero out"), ("terms", "delta"), 1e-305)
    persons = change(EXACT["persons"], ("legs", 0, "noise"), "laplace")
    perturbed = find_document("perturbed")
    for document, words in (
        (tiny, "could not be decided"),
        (change(EXACT["choice"], ("terms", "unit"), "agent"), "one part"),
        (change(persons, ("legs", 0, "questions", 0), makers.CLAIMED), "only Gaussian costs"),
        (change(perturbed, (*list_answers(perturbed)[0], "step"), 1e-9), "no step"),
    ):
        found = verify(document)
        assert found.verdict == "does not follow"
        assert words in found.reason
    assert verify(EXACT["mixed legs"]).figures["mu"] is None
    bare = change(makers.make_bare(), ("claim", "mu"), None)
    assert verify(bare).verdict == "does not follow"


def test_answers_that_are_added_up_stand_on_one_lattice():
    """Beside noise of 1 in steps of 1/8 an answer to 1e-9 is told whole, modulo 1/8."""
    added = EXACT["sum 0"]
    paths = list_answers(added)
    for steps, refused in (((2**-36, 1 / 8, 1 / 8), True), ((2**-30,) * 3, False)):
        document = added
        for path, step in zip(paths, steps, strict=True):
            document = change(document, (*path, "step"), step)
        assert ("one lattice" in verify(document).reason) is refused
    alone = change(added, ("legs", 0, "observer"), makers.MESSAGES)
    assert "one lattice" not in verify(change(alone, (*paths[0], "step"), 2**-36)).reason


@pytest.mark.parametrize("value", [1e-300, 1e-30, 1e30, 1e300])
def test_extreme_numbers_are_refused_without_an_error(value):
    question = {"kind": "moments", "row": value, "target": value}
    moments = change(EXACT["mean"], ("legs", 0, "questions", 0), question)
    names = ("pair", "poisson replace one", "perturbed", "fixed", "lattice")
    for document in (moments, *(find_document(name) for name in names)):
        for path in list_answers(document):
            # a step of next to nothing changes no figure
            for field in ("scale", "sensitivity", "step")[: 3 if value > 1 else 2]:
                assert verify(change(document, (*path, field), value)).verdict == "does not follow"


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_claim_that_leaves_the_jacobian_out_is_refused(relation):
    """Little curvature of its own beside that of a record: J is 4.6, and most of the cost."""
    question = ("legs", 0, "questions", 0)
    steep = change(makers.make_perturbed(relation), (*question, "smoothness"), 1000.0)
    low, high = verify(steep).figures["epsilon"]
    plain = verify(change(steep, (*question, "smoothness"), 0.0)).figures["epsilon"]
    assert plain[1] < low / 2 < high / 2
    assert verify(claim(steep, high)).verdict == "follows"
    for epsilon in (plain[1], 0.98 * low):
        assert verify(claim(steep, epsilon)).verdict == "does not follow"
    # an objective whose gradient does not move costs what its curvature reveals, three times
    still = change(makers.make_perturbed(relation), (*question, "coefficient"), 0.0)
    still = change(still, (*list_answers(still)[0], "sensitivity"), 0.0)
    leg = still["legs"][0]
    curved = leg["questions"][0]["smoothness"] / leg["questions"][0]["rho"]
    jump = 3 * math.log1p(curved / leg["records"][0][1])
    low, high = verify(still).figures["epsilon"]
    assert 0.97 * jump < low <= jump < 1.0102 * high
    assert verify(claim(still, high)).verdict == "follows"
    assert verify(claim(still, 0.0)).verdict == "does not follow"


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": Infinity}', "[]", "1", "{", "[" * 100000]
)
def test_a_text_that_is_no_object_is_unreadable(text):
    with pytest.raises(ValueError, match=r"[a-z]"):
        parse(text)


def test_the_command_reads_the_last_certificate_of_a_folder(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    (tmp_path / "certificate-9.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    (tmp_path / "certificate-10.json").write_text(json.dumps(EXACT["mean"]))
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path / "certificate-10.json"), "--json"]) == 0
    assert '"follows"' in capsys.readouterr().out
    lower = change(EXACT["mean"], ("claim", "epsilon"), 0.1)
    (tmp_path / "certificate-11.json").write_text(json.dumps(lower))
    assert main([str(tmp_path)]) == 1
