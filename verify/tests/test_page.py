"""The page that verifies a certificate in a browser, run in headless Chromium.

It shares no line with the verifier in Python: both are given the same certificates, and where an
epsilon is known from both sides alone, what the two find of it must overlap.
"""

import base64
import json
import math
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import certificate_makers as makers
import pytest
from certificate_makers import BOUNDED, EXACT, change, claim, curve_gaussian, list_false
from mpmath import mp, mpf

from taciturn_verify import verify

PAGE = Path(__file__).resolve().parents[1] / "src" / "taciturn_verify" / "page.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

ANSWER = """<script>
const outcomes = TEXTS.map((text) => {
  const began = Date.now();
  const outcome = verifyCertificate(text);
  return { ...outcome, took: (Date.now() - began) / 1000 };
});
const text = JSON.stringify(outcomes, (_, x) => (x === Infinity ? "infinity" : x));
const bytes = new TextEncoder().encode(text);
const packed = btoa(Array.from(bytes, (x) => String.fromCharCode(x)).join(""));
document.body.textContent = "<<" + packed + ">>";
</script>"""
DROP = """<script>
const held = new DataTransfer();
held.items.add(new File([TEXT], "certificate-1.json"));
const pick = document.getElementById("pick");
pick.files = held.files;
pick.dispatchEvent(new Event("change"));
</script>"""


def run_browser(folder, page, *options):
    """Return what Chromium prints of a page that it opens from a file."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def write_script(script, name, value):
    """Write a value into a script so that it cannot end the script early."""
    return script.replace(name, json.dumps(value).replace("</", "<\\/"), 1)


@pytest.fixture
def ask(tmp_path):
    """Ask the page about documents (or raw texts), all in one start of the browser."""

    def outcomes(documents):
        texts = [x if isinstance(x, str) else json.dumps(x) for x in documents]
        page = PAGE.read_text(encoding="utf-8") + write_script(ANSWER, "TEXTS", texts)
        printed = run_browser(tmp_path, page, "--dump-dom")
        found = re.search("&lt;&lt;(.*)&gt;&gt;", printed)
        assert found, printed[-2000:]
        return json.loads(base64.b64decode(found.group(1)))

    return outcomes


def assert_refused(outcomes, names):
    verdicts = zip(names, (x["verdict"] for x in outcomes), strict=True)
    assert [name for name, verdict in verdicts if verdict != "does not follow"] == []


def test_the_page_holds_everything_it_needs_and_asks_nobody():
    """No address but that of the SVG names occurs, and the policy forbids all connections."""
    text = PAGE.read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'" in text
    assert set(re.findall(r"https?://[^\"' <]+", text)) == {"http://www.w3.org/2000/svg"}
    for word in ("fetch(", "XMLHttpRequest", "innerHTML", "eval(", " src=", "import "):
        assert word not in text, word


@needs_browser
def test_epsilon_of_a_gaussian_total_is_right_to_eleven_digits_on_a_dense_grid(ask):
    """Small and large mu, and delta down to 1e-300: one Newton step measures the error."""
    scales = [0.06 / 10 ** (k / 6) for k in range(-42, 19)]
    answers = [makers.make_answer(0.06, scale, [[i, i]]) for i, scale in enumerate(scales)]
    leg = makers.make_leg([makers.MEAN], [(1, answers)], [(len(scales), 100)])
    deltas = [1e-300, 1e-40, 1e-12, 1e-6, 1e-3, 0.1, 0.7]
    files = [makers.make_document([leg], [0.0] * len(scales), rate=1, delta=d) for d in deltas]
    for delta, outcome in zip(deltas, ask(files), strict=True):
        figures = outcome["figures"]["per_agent_epsilon"]
        for scale, (epsilon, _) in zip(scales, figures, strict=True):
            with mp.workdps(40):
                mu = mpf(0.06) / mpf(scale)
                over = curve_gaussian(mu, epsilon) - mpf(delta)
                if epsilon == 0:
                    assert over <= delta * mpf("1e-14")
                    continue
                error = over / (mp.exp(mpf(epsilon)) * mp.ncdf(-epsilon / mu - mu / 2))
                assert abs(error) <= 1e-11 * epsilon + 1e-15, (float(mu), delta)


@needs_browser
def test_true_certificates_follow_and_none_with_one_false_field(ask):
    """Missing, unknown, ill-typed and wrong values, each alone in a true file."""
    for outcome in (outcomes := ask(EXACT.values())):
        assert outcome["verdict"] == "follows", outcome["reason"]
    for document, outcome in zip(EXACT.values(), outcomes, strict=True):
        claimed, found = document["claim"]["epsilon"], outcome["figures"]["epsilon"]
        assert found[0] <= claimed * (1 + 1e-12)
        if document["claim"]["mu"] is not None:
            assert found == pytest.approx([claimed] * 2, rel=1e-11)
    false = [(name, *one) for name in EXACT for one in list_false(name, EXACT[name])]
    assert len(false) > 3000
    assert_refused(ask([file for *_, file in false]), [name for *name, _ in false])


@needs_browser
def test_what_is_unusual_has_its_verdict(ask):
    names, documents, expected = zip(*makers.list_verdicts(), strict=True)
    for name, verdict, outcome in zip(names, expected, ask(documents), strict=True):
        assert outcome["verdict"] == verdict, (name, outcome["reason"])
        if name == "a word":
            assert "A <b>firm</b>" in outcome["reason"]


PLAIN, SAMPLED = makers.make_answer(0.03, 0.06), makers.make_answer(0.12, 0.24, rate=0.25)
BOTH = [(1, [PLAIN]), (1, [SAMPLED])]
FAMILIES = {
    **BOUNDED,
    **{
        f"one batch of {rate} at {scale}, {relation}": makers.make_sampled(
            relation, rate, scale * (1 if relation == "zero_out" else 2) * 0.03 / rate, 1
        )
        for relation, rate, scale in (
            ("zero_out", 0.1, 0.5), ("zero_out", 0.04, 0.8), ("zero_out", 0.5, 2.0),
            ("replace_one", 0.2, 0.6),
        )
    },
    "many batches": makers.make_sampled(rate=0.05, scale=0.6, times=100),
    "plain beside sampled": makers.make_document(
        [makers.make_leg([makers.MEAN], BOTH, noise="laplace", values=1)],
        1.0, relation="zero_out", delta=1e-5,
    ),
    "a curvature alone": change(
        change(makers.make_perturbed(), ("legs", 0, "questions", 0, "coefficient"), 0.0),
        ("legs", 0, "slots", 0, "answers", 0, "sensitivity"), 0.0,
    ),
}  # fmt: skip


@needs_browser
def test_an_epsilon_without_a_closed_form_is_bounded_as_by_the_verifier_in_python(ask):
    """What both bounds hold follows; 3 % beyond either, and a delta of another size, do not."""
    bounds = [verify(claim(one, 600.0)).figures["epsilon"] for one in FAMILIES.values()]
    factors = (1 / 1.005, 0.97 / 1.0102, 1.03)
    files = [
        claim(document, high * factor)
        for document, (_, high) in zip(FAMILIES.values(), bounds, strict=True)
        for factor in factors
    ]
    outcomes = ask(files)
    for k, (name, (low, high)) in enumerate(zip(FAMILIES, bounds, strict=True)):
        right, *wrong = outcomes[3 * k : 3 * k + 3]
        assert right["verdict"] == "follows", (name, right["reason"])
        found = right["figures"]["epsilon"]
        assert found[0] <= high, name
        assert low <= found[1] <= 1.011 * found[0] + 1e-9, name
        assert right["took"] < 4
        assert_refused(wrong, [(name, factor) for factor in factors[1:]])
    tiny = change(makers.make_sampled(times=10), ("terms", "delta"), 1e-14)
    assert ask([claim(tiny, 5.0)])[0]["verdict"] == "cannot be decided"


@needs_browser
@pytest.mark.parametrize(
    ("scale", "times", "delta", "epsilon"),
    [(1.0, 1000, 1e-5, 1.82805), pytest.param(2.0, 10000, 1e-6, 2.4465, marks=pytest.mark.slow)],
)
def test_many_batches_agree_with_another_accountant(ask, scale, times, delta, epsilon):
    """Figures of dp-accounting 0.6 at a step of 1e-4, less half of its rounding."""
    document = makers.make_sampled("zero_out", 0.01, scale * 0.03 / 0.01, times)
    document = change(document, ("terms", "delta"), delta)
    outcomes = ask(claim(document, epsilon * factor) for factor in (1, 1.005, 0.99, 1.03))
    assert [x["verdict"] == "follows" for x in outcomes] == [True, True, False, False]


@needs_browser
def test_every_kind_of_question_has_the_sensitivity_of_the_specification(ask):
    """The right sensitivity follows, one that is smaller by 1e-8 does not."""
    mean = {"kind": "mean", "coefficient": 1.5, "row": 0.8}
    target, agent = {"relation": "target_change", "beta": 0.5}, {"unit": "agent"}
    bent = {"kind": "derivatives", "coefficient": 2.0, "row": math.sqrt(3)}
    bent |= {"weight": 2 / math.sqrt(3), "divisor": 50.0}
    zeroed, size = {"relation": "zero_out"}, 2 * 1.5 * 0.8 / 200
    cases = [
        (mean | {"widened": 0.01}, {}, 1.01 * size),
        (mean | {"curvature": 4.0}, {}, size / 4),
        (mean, zeroed, size / 2),
        (mean, agent, 200 * size),
        ({"kind": "moments", "row": 1.0, "target": 1.2}, {}, math.sqrt(2) * 1.72 / 200),
        ({"kind": "moments", "row": 1.0, "target": 3.0}, {}, 6 / 200),
        ({"kind": "moments", "row": 3.0, "target": 4.0}, zeroed, 15 / 200),
        (bent, {}, math.sqrt(2 * 12 + 4 * 12) / 50),
        (bent | {"squares": 3.0}, zeroed | agent, 200 * math.sqrt(12 + 12 + 9) / 50),
        ({"kind": "tally", "rows_per_person": 7}, agent, 29 * math.sqrt(2)),
        ({"kind": "counts", "tables": 5}, {}, math.sqrt(10)),
        ({"kind": "counts", "tables": 5, "rows_per_person": 7}, zeroed | agent, 29 * math.sqrt(5)),
        ({"kind": "errors"}, {}, math.sqrt(3)),
        ({"kind": "targets", "steps": 20, "targets": 9}, target | agent, 0.5 * math.sqrt(10)),
        ({"kind": "targets", "steps": 33, "targets": 9}, target | agent, 0.5 * 3),
        ({"kind": "target sums", "row": 2.0, "target": 3.0}, target, 1 + 2**-52 * 200 * 202 * 6),
    ]
    files = []
    for question, terms, moved in cases:
        answer = makers.make_answer(moved, 3 * moved)
        leg = makers.make_leg([question], [(10, [answer])], [(1, 200)], values=4)
        files.append(makers.make_gaussian([leg], [math.sqrt(10) / 3], **terms))
    path = ("legs", 0, "slots", 0, "answers", 0, "sensitivity")
    outcomes = ask([*files, *(change(one, path, lambda x: x * (1 - 1e-8)) for one in files)])
    assert [x["verdict"] for x in outcomes[: len(cases)]] == ["follows"] * len(cases)
    assert_refused(outcomes[len(cases) :], cases)


@needs_browser
def test_text_that_is_no_strict_json_does_not_follow(ask):
    """NaN, overflowing numbers, and a field that stands twice."""
    text = json.dumps(makers.make_mean(scale=0.03))
    texts = [
        "", "[]", "null", "{", text[:-1], text + " {}",
        text.replace("0.03", "NaN"), text.replace("0.03", "1e999"), text.replace("0.03", '"0.03"'),
        text.replace('"scale": 0.03', '"scale": 0.02, "sc\\u0061le": 0.03'),
        text.replace('"claim"', '"claim": {}, "claim"'),
        text.replace('"delta"', '"__proto__": {}, "delta"'),
    ]  # fmt: skip
    assert len(set(texts)) == len(texts)
    assert_refused(ask(texts), texts)


@needs_browser
def test_rules_that_would_cover_too_little_are_not_applied(ask):
    """Units in two parts, batches beside their reach, a share that is not that of the batch."""
    batch = {"rate": 0.01, "batch": 20}
    cases = {}
    for words, question, moved, more, terms in (
        ("two parts", makers.MEAN, 6.0, {}, {"unit": "agent"}),
        ("not covered", makers.TALLY, math.sqrt(2), {"rate": 0.1}, {}),
        ("more records", makers.MEAN, 0.3, batch, {}),
    ):
        leg = makers.make_leg([question], [(1, [makers.make_answer(moved, 3 * moved, **more)])])
        legs = [leg, leg | {"part": "other"}] if words == "two parts" else [leg]
        cases[words] = makers.make_document(legs, 1.0, **terms)
    added = EXACT["sum 1"]
    for i, path in enumerate(makers.list_answers(added)):
        added = change(added, (*path, "step"), 2.0 ** (i - 40))
    cases["different steps"] = added
    for words, outcome in zip(cases, ask(cases.values()), strict=True):
        assert outcome["verdict"] == "does not follow"
        assert words in outcome["reason"]


def read_png(path):
    """Width, height and the bytes of an unfiltered-size check of a PNG."""
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    place, packed = 8, b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        if kind == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += 12 + length
    return width, height, zlib.decompress(packed)


@needs_browser
@pytest.mark.parametrize("width", [500, pytest.param(1200, marks=pytest.mark.slow)])
def test_a_picked_certificate_is_shown_and_the_picture_is_not_empty(tmp_path, width):
    """The file takes the way of the button; text of the file stays text."""
    file = change(EXACT["mean"], ("claim", "conditional"), True)
    file["conditions"] = [
        "<img src=x onerror=document.title='broken'> Agents keep their noise secret."
    ]
    page = PAGE.read_text(encoding="utf-8") + write_script(DROP, "TEXT", json.dumps(file))
    picture, size = tmp_path / "page.png", f"--window-size={width},2000"
    budget = "--virtual-time-budget=5000"
    run_browser(tmp_path, page, size, budget, f"--screenshot={picture}")
    shown = run_browser(tmp_path, page, size, budget, "--dump-dom")
    wide, high, pixels = read_png(picture)
    assert (wide, high) == (width, 2000)
    assert len(set(pixels)) > 100
    for words in (
        "The guarantee follows, under conditions", "&lt;img src=x",
        "<title>Check a privacy certificate</title>", "What it means for one person",
        "What was done", "What it does not cover",
    ):  # fmt: skip
        assert words in shown
