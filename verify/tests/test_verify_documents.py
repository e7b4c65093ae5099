import copy
import json
import math

import certificate_makers as makers
import pytest
from certificate_makers import DELETED, change, claim, list_fields

from taciturn_verify import verify
from taciturn_verify.command import main
from taciturn_verify.judging import RefusedError
from taciturn_verify.reading import parse

EXACT = {
    "mean": makers.make_mean(),
    "mean zero out": makers.make_mean("zero_out"),
    "pair": makers.make_pair(),
    "sum 0": makers.make_sum(0),
    "sum 1": makers.make_sum(1),
    "sum 2": makers.make_sum(2),
    "persons": makers.make_persons(),
    "persons sum": makers.make_persons_sum(),
    "mixed legs": makers.make_mixed_legs(),
    "laplace": makers.make_laplace(),
    "lattice": makers.make_lattice(),
    "choice": makers.make_choice(),
    "two legs": makers.make_two_legs(),
}
BOUNDED = {
    "poisson zero out": makers.make_sampled(),
    "poisson replace one": makers.make_sampled("replace_one"),
    "poisson laplace": makers.make_sampled(noise="laplace", times=10),
    "fixed": makers.make_fixed(),
    "perturbed": makers.make_perturbed(),
    "perturbed zero out": makers.make_perturbed("zero_out"),
    "perturbed target change": makers.make_perturbed("target_change"),
}
BOUNDED["perturbed target change"]["terms"]["beta"] = 1.0


def find_bounds(document):
    """Return the bounds that a verifier finds of a claim, from its refusal of a claim of 600."""
    return verify(claim(document, 600.0)).figures["epsilon"]


for name, document in BOUNDED.items():
    BOUNDED[name] = claim(document, find_bounds(document)[1] / 1.005)
ALL = EXACT | BOUNDED
named = pytest.mark.parametrize("name", ALL)


@named
def test_a_true_certificate_follows(name):
    verdict = verify(ALL[name])
    assert verdict.verdict == "follows", verdict.reason


@named
def test_a_certificate_that_went_through_json_follows(name):
    assert verify(parse(json.dumps(ALL[name]))).verdict == "follows"


def answers(document):
    return [
        ("legs", i, "slots", j, "answers", k)
        for i, leg in enumerate(document["legs"])
        for j, slot in enumerate(leg.get("slots", []))
        for k, _ in enumerate(slot["answers"])
    ]


def list_mutations(document):
    """Return changes that each make a figure or a field false, and the path of each."""
    found = [
        (path, DELETED)
        for path in list_fields(document)
        if isinstance(path[-1], str)
        and path[-1] not in ("version", "curvature", "widened", "step", "rate", "batch")
    ]
    for path in list_fields(document):
        value = document
        for key in path:
            value = value[key]
        if isinstance(value, dict):
            found.append(((*path, "further"), 1))
        elif isinstance(value, bool):
            found.append((path, 1))
        elif isinstance(value, int | float):
            found += [
                (path, str(value)),
                (path, -1),
                (path, math.nan),
                (path, True),
                (path, None),
                (path, []),
            ]
            if path[-1] not in ("mu", "per_agent_mu") and path[:2] != ("claim", "per_agent_mu"):
                continue
            found.append((path, lambda mu: mu * 1.00001))
        elif (
            isinstance(value, str)
            and "by" not in path
            and path[-1] not in ("version", "statement", "part")
            and path[0] not in ("conditions", "statement")
        ):
            found.append((path, value + "s"))
    found += [
        (("claim", "epsilon"), lambda e: e * 0.9),
        (("claim", "epsilon"), lambda e: e * 1.1),
        (("claim", "per_agent_epsilon", 0), lambda e: e * 0.9),
        (("claim", "per_agent_epsilon"), lambda e: e + e[:1]),
        (("claim", "attacker_tpr"), lambda r: r * 0.999),
        (("claim", "attacker_tpr"), lambda r: r + 1e-6),
        (("claim", "reproduction"), True),
        (("claim", "epsilon"), "infinity"),
        (("claim", "mu"), lambda mu: 1.0 if mu is None else None),
        (("terms", "delta"), lambda d: d / 1e3),
        (("terms", "delta"), 0.0),
        (("terms", "delta"), 1.0),
        (("terms", "relation"), "bounded_change"),
        (("legs",), []),
        (("legs",), lambda legs: legs + legs[:1]),
    ]
    for path in answers(document):
        found += [
            ((*path, "sensitivity"), lambda x: x * 1.001),
            ((*path, "sensitivity"), lambda x: x / 2),
            ((*path, "scale"), lambda x: x / 1000),
            ((*path, "scale"), lambda x: x * 2),
            ((*path, "scale"), 0.0),
            ((*path, "step"), 0.5),
            ((*path, "question"), 9),
            ((*path, "agents"), [[0, 99]]),
            ((*path, "agents"), [[1, 0]]),
            (path[:-1], lambda given: given + given[:1]),
            ((*path[:-2], "times"), lambda n: n * 3),
            ((*path[:-2], "times"), 0),
            ((*path[:2], "records"), lambda r: [[n, 3 * m] for n, m in r]),
            ((*path[:2], "records"), lambda r: r + r),
            ((*path[:2], "agents"), [0, 0]),
            ((*path[:2], "agents"), [99]),
        ]
    return found


@named
def test_a_certificate_with_one_false_field_is_refused(name):
    document = ALL[name]
    accepted, mutations = [], list_mutations(document)
    assert len(mutations) > 60
    for path, value in mutations:
        other = change(document, path, value)
        # either relation has the same bounds; a tally and a batch of a fixed size move as far
        # whatever the records are; the other leg is dearer
        true = (
            (path == ("terms", "relation") and "beta" in document["terms"])
            or (path[-1] == "records" and (name in ("laplace", "fixed") or path[:2] == ("legs", 1)))
            or (name == "two legs" and path[-1] == "scale" and path[3] == 0 and path[5] == 0)
            or (name == "two legs" and path[-1] == "scale" and path[3] == 1)
            or (name == "mixed legs" and path[-1] == "scale" and path[1] == 1)
        )
        if other != document and not true and verify(other).verdict != "does not follow":
            accepted.append((path, verify(other)))
    assert not accepted


def test_mutations_are_at_least_two_hundred():
    assert sum(len(list_mutations(document)) for document in ALL.values()) > 2000


def test_slots_and_kinds_may_stand_in_any_order():
    document = change(EXACT["pair"], ("legs", 0, "slots"), lambda slots: slots[::-1])
    assert verify(document).verdict == "follows"
    kinds = change(document, ("legs", 0, "questions"), lambda questions: questions[::-1])
    for path in answers(kinds):
        kinds = change(kinds, (*path, "question"), lambda index: 1 - index)
    assert verify(kinds).verdict == "follows"


def test_a_slot_may_be_written_as_many():
    document = change(EXACT["mean"], ("legs", 0, "slots", 0, "times"), 1)
    document = change(document, ("legs", 0, "slots"), lambda slots: slots * 20)
    assert verify(document).verdict == "follows"


def test_colluders_are_counted():
    for wrong in (0, 2):
        assert (
            verify(change(EXACT["sum 1"], ("legs", 0, "observer", "colluders"), wrong)).verdict
            == "does not follow"
        )


def test_a_dealt_certificate_has_the_dearest_figures_everywhere():
    document = change(EXACT["pair"], ("terms", "dealt"), True)
    assert verify(document).verdict == "does not follow"
    for name in ("epsilon", "mu"):
        document = change(document, ("claim", f"per_agent_{name}"), [document["claim"][name]] * 2)
    assert verify(document).verdict == "follows"


@pytest.mark.parametrize("field", ["rows_per_person", "agents_per_person"])
def test_a_person_at_more_places_costs_more(field):
    assert (
        verify(change(EXACT["persons"], ("terms", field), lambda n: n + 1)).verdict
        == "does not follow"
    )


def test_a_reproduction_follows_but_is_no_guarantee():
    document = change(EXACT["mean"], ("claim", "reproduction"), True)
    assert verify(document).verdict == "does not follow"
    assert verify(change(document, ("claim", "attacker_tpr"), 1)).verdict == "no guarantee"


def test_an_answer_without_noise_is_no_guarantee():
    leg = makers.make_leg([makers.MEAN], [(1, [makers.make_answer(0.06, 0)])], noise="nonoise")
    document = makers.make_document([leg], 1.0)
    document["claim"] |= {
        "epsilon": "infinity",
        "per_agent_epsilon": ["infinity"],
        "mu": "infinity",
        "per_agent_mu": ["infinity"],
        "attacker_tpr": 1.0,
    }
    assert verify(document).verdict == "no guarantee"
    assert verify(change(document, ("claim", "epsilon"), 1e300)).verdict == "does not follow"
    for value in (1.0, None):
        assert verify(change(document, ("claim", "mu"), value)).verdict == "does not follow"
    assert verify(change(document, ("legs", 0, "noise"), "gaussian")).verdict == "no guarantee"
    assert verify(change(document, ("legs", 0, "noise"), "laplace")).verdict == "does not follow"


def test_a_claimed_sensitivity_follows_under_conditions():
    document = change(EXACT["mean"], ("legs", 0, "questions", 0), {"kind": "claimed", "by": ["me"]})
    assert verify(document).verdict == "does not follow"
    assert (
        verify(change(document, ("claim", "conditional"), True)).verdict
        == "follows under conditions"
    )


def test_laplace_noise_is_claimed_at_the_cost_of_its_composition():
    leg = makers.make_leg(
        [makers.TALLY], [(400, [makers.make_answer(2.0, 100.0)])], noise="laplace", values=1
    )
    document = makers.make_document([leg], 8.0)
    assert verify(document).verdict == "does not follow"
    bounds = verify(claim(document, 600.0)).figures["epsilon"]
    assert 1 < bounds[0] < bounds[1] < 3
    assert verify(claim(document, bounds[1] / 1.005)).verdict == "follows"
    for wrong in (bounds[0] * 0.99, bounds[1] * 1.01, 7.9, 8.1):
        assert verify(claim(document, wrong)).verdict == "does not follow"


def test_a_delta_too_small_for_the_bounds_is_said():
    document = change(BOUNDED["poisson zero out"], ("terms", "delta"), 1e-305)
    verdict = verify(document)
    assert verdict.verdict == "does not follow"
    assert "could not be decided" in verdict.reason


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
    (tmp_path / "certificate-11.json").write_text(
        json.dumps(change(EXACT["mean"], ("claim", "epsilon"), 0.1))
    )
    assert main([str(tmp_path)]) == 1


def test_many_answers_of_many_agents_are_checked_within_seconds():
    agents, slots = 100, 100
    each = [(1, [makers.make_answer(0.06, 1.0 + i / 100)]) for i in range(slots)]
    leg = makers.make_leg(
        [makers.MEAN], each, [(agents, 100)], observer={"name": "sum", "colluders": 3}
    )
    mu = math.sqrt(sum(0.06**2 / 97 / (1.0 + i / 100) ** 2 for i in range(slots)))
    assert verify(makers.make_gaussian([leg], [mu] * agents)).verdict == "follows"


def test_refusals_are_no_other_errors():
    for broken in (
        {},
        {"format": []},
        {"legs": 1},
        {1: 2},
        change(EXACT["mean"], ("terms", "relation"), "record"),
        change(EXACT["mean"], ("terms", "unit"), "zero_out"),
        change(EXACT["mean"], ("claim", "mu"), "null"),
        change(EXACT["mean"], ("claim", "per_agent_mu"), "null"),
        change(EXACT["mean"], ("legs", 0, "agents"), []),
        change(EXACT["mean"], ("legs", 0, "agents"), "null"),
        change(EXACT["mean"], ("legs", 0, "records"), [[1, 0]]),
        change(EXACT["mean"], ("legs", 0, "records"), []),
        copy.deepcopy(EXACT["mean"]) | {"claim": []},
    ):
        assert verify(broken).verdict == "does not follow"
    assert issubclass(RefusedError, ValueError)


@pytest.mark.parametrize("value", [1e-300, 1e-30, 1e30, 1e154, 1e300])
def test_extreme_numbers_are_refused_without_an_error(value):
    for name in ("pair", "moments", "poisson replace one", "perturbed", "fixed", "lattice"):
        document = ALL.get(name, makers.make_mean())
        if name == "moments":
            question = {"kind": "moments", "row": value, "target": value}
            document = change(document, ("legs", 0, "questions", 0), question)
        for path in answers(document):
            # a step of next to nothing changes no figure
            for field in ("scale", "sensitivity", "step")[: 3 if value > 1 else 2]:
                assert verify(change(document, (*path, field), value)).verdict == "does not follow"


MESSAGES = {"name": "messages"}


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_claim_that_leaves_the_jacobian_out_is_refused(relation):
    """Little curvature of its own beside that of a record: J is 4.6, and most of the cost."""
    question = ("legs", 0, "questions", 0)
    steep = change(makers.make_perturbed(relation), (*question, "smoothness"), 1000.0)
    low, high = verify(steep).figures["epsilon"]
    plain = verify(change(steep, (*question, "smoothness"), 0.0)).figures["epsilon"]
    assert plain[1] < low / 2 < high / 2
    assert verify(makers.claim(steep, high)).verdict == "follows"
    for epsilon in (plain[1], 0.98 * low):
        assert verify(makers.claim(steep, epsilon)).verdict == "does not follow"


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_an_objective_whose_gradient_does_not_move_costs_what_its_curvature_reveals(relation):
    """As on the page for a browser: the curve of J alone, three times."""
    question = ("legs", 0, "questions", 0)
    still = change(makers.make_perturbed(relation), (*question, "coefficient"), 0.0)
    for path in answers(still):
        still = change(still, (*path, "sensitivity"), 0.0)
    leg = still["legs"][0]
    curved = leg["questions"][0]["smoothness"] / leg["questions"][0]["rho"]
    jump = 3 * math.log1p(curved / leg["records"][0][1])
    low, high = verify(still).figures["epsilon"]
    assert 0.97 * jump < low <= jump < 1.0102 * high
    assert verify(makers.claim(still, high)).verdict == "follows"
    assert verify(makers.claim(still, 0.0)).verdict == "does not follow"


def test_answers_that_are_added_up_stand_on_one_lattice():
    """Beside noise of 1 in steps of 1/8 an answer to 1e-9 is told whole, modulo 1/8."""
    added = makers.make_sum(0)
    paths = answers(added)
    for steps, refused in (((2**-36, 1 / 8, 1 / 8), True), ((2**-30,) * 3, False)):
        document = added
        for path, step in zip(paths, steps, strict=True):
            document = change(document, (*path, "step"), step)
        assert ("one lattice" in verify(document).reason) is refused
    apart = change(change(added, (*paths[0], "step"), 2**-36), ("legs", 0, "observer"), MESSAGES)
    assert "one lattice" not in verify(apart).reason


def test_mu_so_small_that_terms_cancel_is_computed():
    assert verify(makers.make_mean(scale=1e20)).verdict == "follows"
    assert verify(makers.make_mean(scale=1e-3)).verdict == "follows"


def test_laplace_noise_on_a_lattice_costs_both_etas():
    step, scale, times, d = 1e-7, 10.0, 4, 3
    moved = 2.0 + 2 * step * d
    leg = makers.make_leg(
        [makers.TALLY],
        [(times, [makers.make_answer(2.0, scale, step=step)])],
        noise="laplace",
        values=d,
    )
    n, s, k = times * d, scale / step, 1
    while k * (math.log(k) - 1 - math.log(n / (2 * s))) < 100:
        k = 1 + math.floor(1.1 * k)
    epsilon = times * moved / scale + k / (4 * s) + n / (8 * s**2)
    document = makers.make_document([leg], epsilon)
    assert verify(document).verdict == "follows"
    assert verify(claim(document, 0.7)).verdict == "does not follow"


def test_what_has_no_rule_does_not_follow():
    agent = change(EXACT["choice"], ("terms", "unit"), "agent")
    assert "one part" in verify(agent).reason
    persons = change(EXACT["persons"], ("legs", 0, "noise"), "laplace")
    persons = change(persons, ("legs", 0, "questions", 0), {"kind": "claimed", "by": ["me"]})
    assert "unspecified" in verify(persons).reason
    stepped = change(BOUNDED["perturbed"], (*answers(BOUNDED["perturbed"])[0], "step"), 1e-9)
    assert "no step" in verify(stepped).reason


def test_a_lone_epsilon_of_mixed_legs_may_be_that_of_either():
    assert verify(EXACT["mixed legs"]).figures["mu"] is None
    listed = change(EXACT["mixed legs"], ("claim", "per_agent_mu"), [0.5, 0.5])
    assert verify(listed).verdict == "does not follow"
