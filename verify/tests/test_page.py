"""The page that verifies a certificate in a browser, run in headless Chromium."""

import base64
import copy
import json
import math
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import mpmath
import pytest
from mpmath import mpf

PAGE = Path(__file__).resolve().parents[1] / "src" / "taciturn_verify" / "page.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

mpmath.mp.dps = 40

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
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def write_script(script, name, value):
    """Write a value into a script so that it cannot end the script early."""
    return script.replace(name, json.dumps(value).replace("</", "<\\/"), 1)


@pytest.fixture
def verify(tmp_path):
    """Ask the page about documents (or raw texts), all in one start of the browser."""

    def ask(*documents):
        texts = [x if isinstance(x, str) else json.dumps(x) for x in documents]
        page = PAGE.read_text(encoding="utf-8") + write_script(ANSWER, "TEXTS", texts)
        printed = run_browser(tmp_path, page, "--dump-dom")
        found = re.search("&lt;&lt;(.*)&gt;&gt;", printed)
        assert found, printed[-2000:]
        return json.loads(base64.b64decode(found.group(1)))

    return ask


# ---- the mathematics, by hand


def upper_tail(x):
    """Return the upper tail of the normal law."""
    return mpmath.erfc(mpf(x) / mpmath.sqrt(2)) / 2


def invert_tail(p):
    """Find the point whose upper tail is p."""
    p = mpf(p)
    guess = (
        mpmath.sqrt(max(0, -2 * mpmath.log(p) - mpmath.log(2 * mpmath.pi))) if p < 0.3 else mpf(0)
    )
    return mpmath.findroot(lambda x: mpmath.log(upper_tail(x)) - mpmath.log(p), guess)


def shift_rate(p, mu):
    """Return Phi(Phi^-1(p) + mu)."""
    return float(upper_tail(invert_tail(p) - mu))


def find_delta(epsilon, mu):
    """Return the Gaussian curve with forty digits."""
    epsilon, mu = mpf(epsilon), mpf(mu)
    far = mpmath.exp(epsilon) * upper_tail(epsilon / mu + mu / 2)
    return upper_tail(epsilon / mu - mu / 2) - far


def bisect(function, high, turns=130):
    """Find the zero of a falling function above 0."""
    low, high = mpf(0), mpf(high)
    if function(low) <= 0:
        return low
    while function(high) > 0:
        high *= 2
    for _ in range(turns):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def solve_gaussian(mu, delta):
    """Find the least epsilon of the Gaussian curve."""
    return bisect(lambda e: find_delta(e, mu) - mpf(delta), mu)


def bound_rate(epsilon, delta):
    """Return the hits at 1 % false alarms that an (epsilon, delta) allows."""
    epsilon = mpf(epsilon)
    shrink = mpmath.exp(-epsilon)
    return float(min(1, mpmath.exp(epsilon) / 100 + delta, 1 - shrink * (mpf("0.99") - delta)))


# ---- documents


def make_leg(**changes):
    """Make a leg: three agents of 200 records answer ten times with a mean."""
    answer = {"agents": "all", "question": 0, "sensitivity": 2 * 1.5 * 0.8 / 200, "scale": 0.03}
    answer |= changes.pop("answer", {})
    return {
        "part": "records",
        "agents": "all",
        "records": [[3, 200]],
        "observer": {"name": "messages"},
        "noise": "gaussian",
        "values": 4,
        "questions": [{"kind": "mean", "coefficient": 1.5, "row": 0.8}],
        "slots": [{"times": 10, "answers": [answer]}],
    } | changes


def make_file(legs, epsilons, mus, rate, **changes):
    """Make a certificate; `terms` and `claim` in the changes are merged."""
    terms = {"relation": "replace_one", "unit": "record", "delta": 1e-6, "dealt": False}
    finite = [math.inf if x == "infinity" else x for x in epsilons]
    claim = {
        "epsilon": epsilons[finite.index(max(finite))],
        "mu": None if mus is None else max(mus),
        "per_agent_epsilon": epsilons,
        "per_agent_mu": mus,
        "attacker_tpr": rate,
        "reproduction": False,
        "conditional": False,
    }
    return {
        "format": "taciturn certificate 1",
        "terms": terms | changes.pop("terms", {}),
        "legs": legs,
        "claim": claim | changes.pop("claim", {}),
        "conditions": [],
        "statement": "",
        "method": "test",
    } | changes


def make_gaussian(mus, leg, **changes):
    """Make a file off the lattice whose mu is known."""
    delta = changes.get("terms", {}).get("delta", 1e-6)
    epsilons = [float(solve_gaussian(mu, delta)) for mu in mus]
    mus = [float(mu) for mu in mus]
    return make_file([leg], epsilons, mus, shift_rate(0.01, max(mus)), **changes)


def make_plain():
    """Make a true file of the simplest kind."""
    return make_gaussian([mpmath.sqrt(10) * mpf(0.012) / mpf(0.03)] * 3, make_leg())


def make_laplace(leg, epsilon, agents=3, **changes):
    """Make a file whose total is pure."""
    return make_file([leg], [epsilon] * agents, None, bound_rate(epsilon, 1e-6), **changes)


def assert_follows(outcomes):
    """Every file follows."""
    for outcome in outcomes:
        assert outcome["verdict"] == "follows", outcome["reason"]


def assert_refused(outcomes, names=None):
    """No file follows."""
    for i, outcome in enumerate(outcomes):
        assert outcome["verdict"] == "does not follow", (names and names[i], outcome)


# ---- what the file itself promises


def test_the_page_holds_everything_it_needs_and_asks_nobody():
    """No address but that of the SVG names occurs, and the policy forbids all connections."""
    text = PAGE.read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'" in text
    assert set(re.findall(r"https?://[^\"' <]+", text)) == {"http://www.w3.org/2000/svg"}
    for word in ("fetch(", "XMLHttpRequest", "innerHTML", "eval(", " src=", "import "):
        assert word not in text, word


# ---- true certificates


@needs_browser
def test_epsilon_of_a_gaussian_total_is_right_to_eleven_digits_on_a_dense_grid(verify):
    """Small and large mu, and delta down to 1e-300: one Newton step measures the error."""
    ratios = [10 ** (k / 6) for k in range(-42, 19)]
    scales = [0.012 / ratio for ratio in ratios]
    answers = [
        {"agents": [[i, i]], "question": 0, "sensitivity": 0.012, "scale": scale}
        for i, scale in enumerate(scales)
    ]
    leg = make_leg(records=[[len(ratios), 200]], slots=[{"times": 1, "answers": answers}])
    deltas = [1e-300, 1e-40, 1e-12, 1e-6, 1e-3, 0.1, 0.7]
    files = [
        make_file([leg], [0.0] * len(ratios), None, 1, terms={"delta": delta}) for delta in deltas
    ]
    for delta, outcome in zip(deltas, verify(*files), strict=True):
        for scale, (epsilon, _) in zip(
            scales, outcome["figures"]["per_agent_epsilon"], strict=True
        ):
            mu = mpf(0.012) / mpf(scale)
            if epsilon == 0:
                assert find_delta(0, mu) <= delta * (1 + mpf("1e-14"))
                continue
            slope = mpmath.exp(mpf(epsilon)) * upper_tail(epsilon / mu + mu / 2)
            error = (find_delta(epsilon, mu) - mpf(delta)) / slope
            assert abs(error) <= 1e-11 * epsilon + 1e-15, (float(mu), delta)


@needs_browser
def test_gaussian_certificates_of_many_kinds_follow(verify):
    """Messages, sums with colluders, persons at two agents, dealt records, agents apart."""
    first = mpf(0.012) / mpf(0.03)
    slots = [
        {
            "times": 10,
            "answers": [{"agents": [[0, 1]], "question": 0, "sensitivity": 0.012, "scale": 0.03}],
        },
        {
            "times": 2,
            "answers": [
                {"agents": "all", "question": 1, "sensitivity": math.sqrt(2), "scale": 3.0}
            ],
        },
    ]
    questions = [*make_leg()["questions"], {"kind": "tally"}]
    second = 2 * 2 / mpf(9)
    twice = make_gaussian(
        [mpmath.sqrt(10 * first**2 + second)] * 2 + [mpmath.sqrt(second)],
        make_leg(questions=questions, slots=slots),
    )
    summed = make_gaussian(
        [mpmath.sqrt(10) * mpf(0.012) / mpmath.sqrt(2 * mpf(0.03) ** 2)] * 3,
        make_leg(observer={"name": "sum", "colluders": 1}),
    )
    terms = {"unit": "person", "rows_per_person": 5, "agents_per_person": 2}
    one = mpmath.sqrt(10) * 5 * mpf(0.012) / mpf(0.03)
    person = make_gaussian([one] * 3, make_leg(answer={"sensitivity": 0.06}), terms=terms)
    both = one * mpmath.sqrt(2)
    person["claim"] |= {
        "epsilon": float(solve_gaussian(both, 1e-6)),
        "mu": float(both),
        "attacker_tpr": shift_rate(0.01, both),
    }
    dealt = copy.deepcopy(twice)
    dealt["terms"]["dealt"] = True
    for name in ("per_agent_epsilon", "per_agent_mu"):
        dealt["claim"][name] = [dealt["claim"][name][0]] * 3
    choice = 2 * -invert_tail(1 / (1 + mpmath.exp(-mpf(0.7))))
    choice = make_gaussian([abs(choice)] * 3, {"part": "a", "choice": {"rate": 0.7}})
    parts = copy.deepcopy(twice)
    parts["legs"].append(make_leg(part="b", agents=[2], records=[[1, 200]]))
    mu = mpmath.sqrt(10) * first
    parts["claim"]["per_agent_epsilon"][2] = float(solve_gaussian(mu, 1e-6))
    parts["claim"]["per_agent_mu"][2] = float(mu)
    outcomes = verify(make_plain(), twice, summed, person, dealt, choice, parts)
    assert_follows(outcomes)
    for outcome in outcomes:
        assert outcome["figures"]["epsilon"][0] == outcome["figures"]["epsilon"][1]


@needs_browser
def test_every_kind_of_question_has_the_sensitivity_of_the_specification(verify):
    """The right sensitivity follows, one that is smaller by 1e-8 does not."""
    target = {"relation": "target_change", "beta": 0.5}
    agent = {"unit": "agent"}
    size = 2 * 1.5 * 0.8 / 200
    cases = [
        ({"kind": "mean", "coefficient": 1.5, "row": 0.8, "widened": 0.01}, {}, 1.01 * size),
        ({"kind": "mean", "coefficient": 1.5, "row": 0.8, "curvature": 4.0}, {}, size / 4),
        ({"kind": "mean", "coefficient": 1.5, "row": 0.8}, {"relation": "zero_out"}, size / 2),
        ({"kind": "mean", "coefficient": 1.5, "row": 0.8}, agent, 200 * size),
        ({"kind": "moments", "row": 1.0, "target": 1.2}, {}, math.sqrt(2) * 1.72 / 200),
        ({"kind": "moments", "row": 1.0, "target": 3.0}, {}, 6 / 200),
        ({"kind": "moments", "row": 3.0, "target": 4.0}, {"relation": "zero_out"}, 15 / 200),
        ({"kind": "tally", "rows_per_person": 7}, agent, 29 * math.sqrt(2)),
        ({"kind": "errors"}, {}, math.sqrt(3)),
        ({"kind": "targets", "steps": 20, "targets": 9}, target | agent, 0.5 * math.sqrt(10)),
        ({"kind": "targets", "steps": 33, "targets": 9}, target | agent, 0.5 * 3),
        ({"kind": "target sums", "row": 2.0, "target": 3.0}, target, 1 + 2**-52 * 200 * 202 * 6),
    ]
    true, false = [], []
    for question, terms, sensitivity in cases:
        answer = {"sensitivity": sensitivity, "scale": 3 * sensitivity}
        leg = make_leg(questions=[question], answer=answer)
        file = make_gaussian([mpmath.sqrt(10) / 3] * 3, leg, terms=terms)
        true.append(file)
        file = copy.deepcopy(file)
        file["legs"][0]["slots"][0]["answers"][0]["sensitivity"] *= 1 - 1e-8
        false.append(file)
    outcomes = verify(*true, *false)
    assert_follows(outcomes[: len(cases)])
    assert_refused(outcomes[len(cases) :])


@needs_browser
def test_laplace_legs_cost_at_most_the_sum_of_their_ratios(verify):
    """One number, four numbers (in the 1-norm); a person at two agents has no rule."""
    answer = {"sensitivity": 0.012, "scale": 0.1}
    single = make_laplace(make_leg(noise="laplace", values=1, answer=answer), 1.2)
    answer = {"sensitivity": 0.024, "scale": 0.1}
    four = make_laplace(make_leg(noise="laplace", answer=answer), 2.4)
    answer = {"sensitivity": 0.06, "scale": 0.5}
    terms = {"unit": "person", "rows_per_person": 5, "agents_per_person": 2}
    leg = make_leg(noise="laplace", values=1, answer=answer)
    person = make_laplace(leg, 1.2, terms=terms)
    person["claim"] |= {"epsilon": 2.4, "attacker_tpr": bound_rate(2.4, 1e-6)}
    wrong = copy.deepcopy(single)
    wrong["claim"]["per_agent_epsilon"] = [1.2 * 0.97] * 3
    tight = copy.deepcopy(single)
    least = 0.12 + 2 * math.log1p(-1e-6)  # of one answer, where 1 - exp((epsilon - 0.12)/2) = delta
    tight["legs"][0]["slots"][0]["times"] = 1
    tight["claim"] |= {"epsilon": least, "per_agent_epsilon": [least] * 3}
    tight["claim"]["attacker_tpr"] = bound_rate(least, 1e-6)
    outcomes = verify(single, four, tight, person, wrong)
    assert_follows(outcomes[:3])
    assert_refused(outcomes[3:])


@needs_browser
def test_noise_on_a_lattice_is_paid_for_as_specified(verify):
    """Gaussian and Laplace noise that is a whole multiple of a step."""
    delta, step, scale = mpf(1e-6), mpf(2) ** -24, mpf(0.03)
    s, n = scale / step, mpf(40)
    mu = mpmath.sqrt(10) * (mpf(0.012) + 4 * step) / scale
    first = n / (24 * s**2)
    left = delta * (1 - mpf(1e-10)) * mpmath.exp(-first) * (1 - mpf(1e-15)) - mpmath.exp(-99)
    smooth = solve_gaussian(mu, left)

    def second(tau):
        root = mpmath.sqrt(1 + 2 * mpmath.sqrt(tau / n) + 2 * tau / n) + 1 / (2 * s)
        return n * root**2 / (24 * s**2)

    g = mpf(1e-10) * delta
    p = mpmath.exp(second(mpf(100))) * (mpf("0.01") + g) + mpmath.exp(-100)
    rate = mpmath.exp(first) * mpf(shift_rate(p, mu)) + g
    epsilon = float(smooth + first + second(100 + smooth))
    leg = make_leg(answer={"step": float(step)})
    gaussian = make_file([leg], [epsilon] * 3, [float(mu)] * 3, float(rate))

    step, scale, n = mpf(2) ** -20, mpf(0.1), mpf(10)
    s, k = scale / step, 1
    while k * (mpmath.log(k) - 1 - mpmath.log(n / (2 * s))) < 100:
        k = 1 + 11 * k // 10
    epsilon = 10 * (mpf(0.012) + 2 * step) / scale + k / (4 * s) + n / (8 * s**2)
    answer = {"sensitivity": 0.012, "scale": 0.1, "step": float(step)}
    laplace = make_laplace(make_leg(noise="laplace", values=1, answer=answer), float(epsilon))

    coarse = make_leg(answer={"step": 0.05})
    moved = math.sqrt(10) * (0.012 + 0.2) / 0.03
    broken = make_file([coarse], ["infinity"] * 3, [moved] * 3, 1)
    outcomes = verify(gaussian, laplace, broken)
    assert_follows(outcomes[:2])
    assert outcomes[2]["verdict"] == "no guarantee", outcomes[2]


def assert_bounded(verify, make, epsilon):
    """Epsilon and 0.5 % more follow; 1 % less and 3 % more do not."""
    outcomes = verify(*(make(float(epsilon * factor)) for factor in (1, 1.005, 0.99, 1.03)))
    assert_follows(outcomes[:2])
    assert_refused(outcomes[2:])
    for outcome in outcomes:
        low, high = outcome["figures"]["epsilon"]
        assert low <= epsilon <= high
        assert outcome["took"] < 4


def make_sampled(rate, scale, times, **terms):
    """Poisson batches: a share of the records in the mean, so that the ratio is known."""
    factor = 1 if terms.get("relation") == "zero_out" else 2
    answer = {"sensitivity": factor * 1.2 / 200 / rate, "rate": rate}
    answer["scale"] = answer["sensitivity"] * scale
    leg = make_leg(answer=answer)
    leg["slots"][0]["times"] = times

    def make(epsilon):
        delta = terms.get("delta", 1e-6)
        claimed = bound_rate(epsilon, delta)
        return make_file([leg], [epsilon] * 3, None, claimed, terms=terms)

    return make


@needs_browser
@pytest.mark.parametrize(("rate", "scale"), [(0.1, 0.5), (0.01, 0.8), (0.5, 2.0)])
def test_one_batch_drawn_by_coin_is_bounded_from_both_sides(verify, rate, scale):
    """One answer with a record left out has a closed form."""

    def surplus(epsilon):
        grown = mpmath.log1p(mpmath.expm1(epsilon) / mpf(rate))
        return rate * find_delta(grown, 1 / mpf(scale)) - mpf(1e-6)

    make = make_sampled(rate, scale, 1, relation="zero_out")
    assert_bounded(verify, make, float(bisect(surplus, 1)))


@needs_browser
def test_one_batch_with_a_record_exchanged_is_bounded_from_both_sides(verify):
    """The pair at +1/2 and -1/2, integrated by hand."""
    rate, z = mpf("0.2"), mpf("0.6")

    def density(x, shift):
        return (1 - rate) * mpmath.npdf(x, 0, z) + rate * mpmath.npdf(x - shift, 0, z)

    def surplus(epsilon):
        grow = mpmath.exp(epsilon)
        edge = bisect(lambda x: grow * density(x, -0.5) - density(x, 0.5), 5, 80)
        tail = lambda x: upper_tail(x / z)  # noqa: E731
        hit = (1 - rate) * tail(edge) + rate * tail(edge - mpf("0.5"))
        miss = (1 - rate) * tail(edge) + rate * tail(edge + mpf("0.5"))
        return hit - grow * miss - mpf(1e-6)

    low, high = mpf(1), mpf(4)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if surplus(middle) > 0 else (low, middle)
    assert_bounded(verify, make_sampled(0.2, 0.6, 1), float(high))


@needs_browser
@pytest.mark.parametrize(
    ("rate", "scale", "times", "delta", "epsilon"),
    [(0.01, 1.0, 1000, 1e-5, 1.82805), (0.01, 2.0, 10000, 1e-6, 2.4465)],
)
def test_many_batches_agree_with_another_accountant(verify, rate, scale, times, delta, epsilon):
    """Figures of dp-accounting 0.6 at a step of 1e-4, less half of its rounding."""
    make = make_sampled(rate, scale, times, relation="zero_out", delta=delta)
    assert_bounded(verify, make, epsilon)


@needs_browser
def test_gaussian_and_laplace_events_compose_where_one_answer_is_sampled(verify):
    """One plain and one sampled answer, summed by a plain convolution."""
    rate, ratio, delta = 0.25, 0.5, 1e-5
    answer = {"sensitivity": 1.2 / 200, "scale": 1.2 / 200 / ratio}
    other = {"sensitivity": 1.2 / 200 / rate, "scale": 1.2 / 200 / rate / ratio, "rate": rate}
    leg = make_leg(values=1, noise="laplace", answer=answer)
    leg["slots"] = [
        {"times": 1, "answers": [{"agents": "all", "question": 0} | a]} for a in (answer, other)
    ]
    cells = 3000
    points = [(0.0, 0.5, 0.5 * math.exp(-ratio)), (1.0, 0.5 * math.exp(-ratio), 0.5)]
    for i in range(cells):
        x = (i + 0.5) / cells
        mass = ratio / 2 / cells
        points.append((x, mass * math.exp(-ratio * x), mass * math.exp(-ratio * (1 - x))))
    plain = [(math.log(p / q), p) for _, q, p in points]
    mixed = [(1 - rate) * q + rate * p for _, q, p in points]
    orders = (
        [(math.log(m / q), m) for m, (_, q, _) in zip(mixed, points, strict=True)],
        [(math.log(q / m), q) for m, (_, q, _) in zip(mixed, points, strict=True)],
    )

    def solve(sampled):
        pairs = sorted(sampled)
        losses, masses = [x for x, _ in pairs], [p for _, p in pairs]

        def surplus(epsilon):
            """Mass above the level, and the same weighted by e^-loss, from the top down."""
            total, at, above, weighted = 0.0, len(pairs), 0.0, 0.0
            for loss, mass in sorted(plain):
                while at > 0 and losses[at - 1] > epsilon - loss:
                    at -= 1
                    above += masses[at]
                    weighted += masses[at] * math.exp(-losses[at])
                total += mass * (above - weighted * math.exp(epsilon - loss))
            return total - delta

        low, high = 0.0, 2.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if surplus(middle) > 0 else (low, middle)
        return high

    epsilon = max(solve(order) for order in orders)
    terms = {"relation": "zero_out", "delta": delta}
    make = lambda x: make_file([leg], [x] * 3, None, bound_rate(x, delta), terms=terms)  # noqa: E731
    assert_bounded(verify, make, epsilon)


@needs_browser
def test_batches_of_a_fixed_size_are_bounded_by_exact_sums(verify):
    """Theorem 27 of Wang, Balle and Kasiviswanathan with 300 digits."""
    batch, count, times, z, delta = 20, 200, 50, mpf(4), mpf(1e-6)
    mpmath.mp.dps = 300
    rho = lambda j: j / (2 * z**2)  # noqa: E731
    even = lambda n: mpmath.fsum(  # noqa: E731
        (-1) ** i * mpmath.binomial(n, i) * mpmath.exp((i - 1) * rho(i)) for i in range(n + 1)
    )
    tables = {n: even(n) for n in range(2, 44, 2)}
    share = mpf(batch) / count
    logs = {1: mpf(0)}
    for a in range(2, 42):
        rest = mpmath.exp(rho(2)) - 1
        total = 1 + share**2 * mpmath.binomial(a, 2) * min(4 * rest, 2 * mpmath.exp(rho(2)))
        for j in range(3, a + 1):
            sharp = 4 * mpmath.sqrt(tables[j // 2 * 2] * tables[(j + 1) // 2 * 2])
            total += share**j * mpmath.binomial(a, j) * min(sharp, 2 * mpmath.exp((j - 1) * rho(j)))
        logs[a] = mpmath.log(total)
    mpmath.mp.dps = 40

    def bound(a):
        whole = int(a)
        log = logs[whole] + (a - whole) * (logs[whole + 1] - logs[whole])
        return times * log / (a - 1) + mpmath.log(1 - 1 / a) - mpmath.log(delta * a) / (a - 1)

    epsilon = float(min(bound(mpf(k) / 20) for k in range(30, 800)))
    answer = {
        "sensitivity": 2 * 1.2 / batch,
        "scale": 2 * 1.2 / batch * 4,
        "rate": 0.1,
        "batch": batch,
    }
    leg = make_leg(answer=answer)
    leg["slots"][0]["times"] = times
    make = lambda x: make_file([leg], [x] * 3, None, bound_rate(x, 1e-6))  # noqa: E731
    outcomes = verify(
        make(epsilon), make(epsilon * 1.009), make(epsilon * 0.999), make(epsilon * 1.02)
    )
    assert_follows(outcomes[:2])
    assert_refused(outcomes[2:])
    assert outcomes[0]["figures"]["epsilon"][0] == pytest.approx(epsilon, rel=1e-4)


def perturbed_tail(m, jump, u, zero_out):
    """Both integrands of the curve of noise inside an objective."""
    grown = math.expm1(jump)

    def tail(a):
        return math.erfc(max(0.0, (m - jump) / a - a / 2) / math.sqrt(2))

    t = m - jump - u * u / 2
    first = []
    if not zero_out:
        for j in range(16):
            x, y = tail(u * math.cos(j * math.pi / 64)), tail(u * math.sin((j + 1) * math.pi / 64))
            first.append(x + y - x * y)
    if t < 0:
        return first, 1.0
    if zero_out:
        far = max(t / u, math.sqrt(t / grown))
        return first, (math.erfc(t / u / math.sqrt(2)) + math.erfc(far / math.sqrt(2))) / 2
    radii = [t / u + (2 * i / 48) ** 2 for i in range(49)]
    radii[0] = t / u
    weights = [math.exp(-r * r / 2) for r in radii]
    total = weights[48]
    for i in range(1, 49):
        cosine = (t - grown * radii[i] ** 2) / (u * radii[i])
        part = 1.0 if cosine <= 0 else math.acos(min(1.0, cosine)) / math.pi
        total += (weights[i - 1] - weights[i]) * part
    return first, total


@needs_browser
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_noise_inside_an_objective_is_bounded_by_its_curve(verify, relation):
    """One answer: the curve is integrated by the midpoint rule and inverted."""
    zero_out = relation == "zero_out"
    factor = 1 if zero_out else 2
    jump, ratio, step = math.log1p(20 / (200 * 1.0)), 0.4, 1e-3
    sums, curve = [0.0] * (1 if zero_out else 17), []
    for k in range(int(4.5 / step), 0, -1):
        first, second = perturbed_tail((k - 0.5) * step, jump, ratio, zero_out)
        shrink = math.exp(-step)
        sums = [
            s * shrink + p * step * math.exp(-step / 2)
            for s, p in zip(sums, [*first, second], strict=True)
        ]
        curve.append(((k - 1) * step, min(max(sums[:-1], default=1.0), sums[-1])))
    epsilon = min(e for e, delta in curve if delta <= 1e-6)
    sensitivity = factor * 1.2 / 200
    question = {
        "kind": "perturbed",
        "coefficient": 1.5,
        "row": 0.8,
        "rho": 1.0,
        "smoothness": 20.0,
        "residual": 0.0,
        "output_noise": 0.0,
    }
    leg = make_leg(
        questions=[question], answer={"sensitivity": sensitivity, "scale": sensitivity / ratio}
    )
    leg["slots"][0]["times"] = 1
    terms = {"relation": relation}
    make = lambda x: make_file([leg], [x] * 3, None, bound_rate(x, 1e-6), terms=terms)  # noqa: E731
    assert_bounded(verify, make, epsilon)


# ---- verdicts


@needs_browser
def test_an_objective_without_noise_of_its_own_costs_what_its_curvature_reveals(verify):
    """No movement: the curve is that of a pure bound, with jumps that no grid meets."""
    jump, delta = mpmath.log1p(20 / mpf(200)), mpf(1e-6)
    question = {
        "kind": "perturbed", "coefficient": 0.0, "row": 0.8, "rho": 1.0, "smoothness": 20.0,
        "residual": 0.0, "output_noise": 0.0,
    }  # fmt: skip
    leg = make_leg(questions=[question], answer={"sensitivity": 0, "scale": 1.0})
    leg["slots"][0]["times"] = 1
    make = lambda x: make_file([leg], [x] * 3, None, bound_rate(x, 1e-6))  # noqa: E731
    grown = mpmath.exp(jump)
    assert_bounded(verify, make, float(mpmath.log(grown - delta * (1 + grown))))


@needs_browser
def test_what_is_no_guarantee_and_what_has_conditions_is_said(verify):
    """A reproduction, noise left out, a condition, and the word of somebody."""
    seed = make_plain()
    seed["claim"] |= {"reproduction": True, "attacker_tpr": 1}
    bare = make_file([make_leg(noise="nonoise")], ["infinity"] * 3, None, 1)
    bound = make_plain()
    bound["claim"]["conditional"] = True
    word = make_plain()
    word["legs"][0]["questions"] = [{"kind": "claimed", "by": ["A <b>firm</b>"]}]
    word["claim"]["conditional"] = True
    silent = copy.deepcopy(word)
    silent["claim"]["conditional"] = False
    found = verify(seed, bare, bound, word, silent)
    assert [x["verdict"] for x in found] == [
        "no guarantee",
        "no guarantee",
        "follows under conditions",
        "follows under conditions",
        "does not follow",
    ]
    assert "A <b>firm</b>" in found[3]["reason"]


def change(file, path, value):
    """Copy a file with one value exchanged, added, or (None) taken out."""
    changed = copy.deepcopy(file)
    place = changed
    for name in path[:-1]:
        place = place[name]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


LEG = ("legs", 0)
SLOT = (*LEG, "slots", 0)
ANSWERED = (*SLOT, "answers", 0)
MUTATIONS = [
    (("format",), "taciturn certificate 2"), (("format",), None), (("conditions",), None),
    (("statement",), None), (("conditions",), [1]), (("legs",), []), (("legs",), None),
    (("terms", "delta"), 0), (("terms", "delta"), 1), (("terms", "delta"), "1e-6"),
    (("terms", "delta"), 2e-6), (("terms", "unit"), "row"), (("terms", "unit"), "agent"),
    (("terms", "relation"), "zero_out"), (("terms", "relation"), "toString"),
    (("terms", "dealt"), 0), (("terms", "beta"), 1.0), (("terms", "agents_per_person"), 1),
    (("claim", "epsilon"), 1.0), (("claim", "mu"), 1.0), (("claim", "attacker_tpr"), 0.02),
    (("claim", "attacker_tpr"), 1.5), (("claim", "reproduction"), "no"), (("claim", "extra"), 1),
    (("claim", "per_agent_epsilon", 1), 1.0), (("claim", "per_agent_mu", 1), 1.0),
    (("claim", "per_agent_epsilon", 1), "inf"), (("claim", "per_agent_mu"), [1.0]),
    (("claim", "per_agent_epsilon"), []), (("claim", "reproduction"), True),
    ((*LEG, "agents"), [0, 1]), ((*LEG, "agents"), [0, 0, 1]), ((*LEG, "agents"), [0, 1, 3]),
    ((*LEG, "records"), [[2, 200]]), ((*LEG, "records"), [[3, 201]]), ((*LEG, "records"), [[3, 0]]),
    ((*LEG, "records"), [3, 200]), ((*LEG, "observer"), {"name": "nobody"}),
    ((*LEG, "observer"), {"name": "sum"}), ((*LEG, "observer"), {"name": "sum", "colluders": 1}),
    ((*LEG, "observer"), {"name": "messages", "colluders": 1}), ((*LEG, "noise"), "laplace"),
    ((*LEG, "noise"), "nonoise"), ((*LEG, "values"), 0), ((*LEG, "values"), 1.5),
    ((*LEG, "values"), True), ((*LEG, "choice"), {"rate": 1}), ((*LEG, "part"), 1),
    ((*LEG, "questions"), []), ((*LEG, "questions", 0, "kind"), "median"),
    ((*LEG, "questions", 0, "kind"), "moments"), ((*LEG, "questions", 0, "row"), -0.8),
    ((*LEG, "questions", 0, "row"), 0.81), ((*LEG, "questions", 0, "widened"), 0.1),
    ((*LEG, "questions", 0, "curvature"), 0), ((*LEG, "questions", 0, "colour"), 1),
    ((*SLOT, "times"), 11), ((*SLOT, "times"), 0), ((*SLOT, "times"), 1.5),
    ((*SLOT, "times"), None),
    ((*ANSWERED, "agents"), [[0, 1], [1, 2]]), ((*ANSWERED, "agents"), [[0, 3]]),
    ((*ANSWERED, "agents"), [[2, 0]]), ((*ANSWERED, "agents"), [[0, 1]]),
    ((*ANSWERED, "question"), 1), ((*ANSWERED, "question"), -1),
    ((*ANSWERED, "sensitivity"), 0.011), ((*ANSWERED, "sensitivity"), -0.012),
    ((*ANSWERED, "scale"), 0.031), ((*ANSWERED, "scale"), -0.03), ((*ANSWERED, "scale"), 0),
    ((*ANSWERED, "step"), -1), ((*ANSWERED, "step"), 1e-6), ((*ANSWERED, "rate"), 0),
    ((*ANSWERED, "rate"), 1.1), ((*ANSWERED, "rate"), 0.5), ((*ANSWERED, "batch"), 100),
    ((*ANSWERED, "shift"), 0), ((*ANSWERED, "__proto__x"), 0),
]  # fmt: skip


@needs_browser
def test_a_file_with_one_thing_changed_does_not_follow(verify):
    """Missing, unknown, ill-typed and wrong values, each alone in a true file."""
    plain = make_plain()
    outcomes = verify(plain, *(change(plain, path, value) for path, value in MUTATIONS))
    assert_follows(outcomes[:1])
    assert_refused(outcomes[1:], MUTATIONS)


def list_paths(value, path=()):
    """List the ways to all values inside a document, those of objects and lists included."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, part in inside:
        yield (*path, name)
        if isinstance(part, dict | list):
            yield from list_paths(part, (*path, name))


@needs_browser
def test_no_value_may_be_of_another_kind(verify):
    """Every value of a true file, exchanged for null, a text, an object, a list or a truth."""
    plain = make_plain()
    files, names = [], []
    for path in list_paths(plain):
        if path[0] in {"method", "conditions", "statement"}:
            continue
        for text in ("null", '"?"', "{}", "[]", "true", "1e999", '"infinity"'):
            # another part, a condition, or equal agents that were dealt their records, may be
            if (path[-1], text) in {("part", '"?"'), ("part", '"infinity"')}:
                continue
            if path[-1] in {"conditional", "dealt"} and text == "true":
                continue
            mark = "a mark that stands nowhere else"
            files.append(json.dumps(change(plain, path, mark)).replace(json.dumps(mark), text))
            names.append((path, text))
    assert len(files) > 250
    assert_refused(verify(*files), names)


@needs_browser
def test_text_that_is_no_strict_json_does_not_follow(verify):
    """NaN, overflowing numbers, and a field that stands twice."""
    text = json.dumps(make_plain())
    texts = [
        "", "[]", "null", "{", text[:-1], text + " {}",
        text.replace("0.03", "NaN"), text.replace("0.03", "1e999"), text.replace("0.03", '"0.03"'),
        text.replace('"scale": 0.03', '"scale": 0.02, "sc\\u0061le": 0.03'),
        text.replace('"claim"', '"claim": {}, "claim"'),
        text.replace('"delta"', '"__proto__": {}, "delta"'),
    ]  # fmt: skip
    assert len(set(texts)) == len(texts)
    assert_refused(verify(*texts), texts)


@needs_browser
def test_rules_that_would_cover_too_little_are_not_applied(verify):
    """Units in two parts, batches beside their reach, and a share that is not that of the batch."""
    two = make_gaussian(
        [mpmath.sqrt(10) * 200 * mpf(0.012)] * 3,
        make_leg(answer={"sensitivity": 2.4, "scale": 1.0}),
        terms={"unit": "agent"},
    )
    follows = copy.deepcopy(two)
    two["legs"].append(two["legs"][0] | {"part": "other"})
    counted = {"sensitivity": math.sqrt(2), "rate": 0.1, "scale": 3.0}
    tally = make_leg(questions=[{"kind": "tally"}], answer=counted)
    tally = make_file([tally], [1.0] * 3, None, 0.02)
    share = {"sensitivity": 2.4 / 20, "scale": 0.5, "rate": 0.01, "batch": 20}
    share = make_file([make_leg(answer=share)], [1.0] * 3, None, bound_rate(1.0, 1e-6))
    added = make_plain()
    added["legs"][0]["observer"] = {"name": "sum", "colluders": 1}
    (slot,) = added["legs"][0]["slots"]
    (all_of_them,) = slot["answers"]
    slot["answers"] = [
        all_of_them | {"agents": [[i, i]], "step": 2.0 ** (i - 40)} for i in range(3)
    ]
    outcomes = verify(follows, two, tally, share, added)
    assert_follows(outcomes[:1])
    assert_refused(outcomes[1:])
    said = ("two parts", "not covered", "more records", "different steps")
    for outcome, words in zip(outcomes[1:], said, strict=True):
        assert words in outcome["reason"]


@needs_browser
def test_a_delta_below_what_the_arithmetic_holds_is_left_undecided(verify):
    """Rounding of a transform is of the order of 1e-16."""
    make = make_sampled(0.1, 1.0, 10, relation="zero_out", delta=1e-14)
    assert verify(make(5.0))[0]["verdict"] == "cannot be decided"


# ---- what people see


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
@pytest.mark.parametrize("width", [1200, 500])
def test_a_picked_certificate_is_shown_and_the_picture_is_not_empty(tmp_path, width):
    """The file takes the way of the button; text of the file stays text."""
    file = make_plain()
    file["claim"]["conditional"] = True
    file["conditions"] = [
        "<img src=x onerror=document.title='broken'> Agents keep their noise secret."
    ]
    page = PAGE.read_text(encoding="utf-8") + write_script(DROP, "TEXT", json.dumps(file))
    picture = tmp_path / "page.png"
    size = f"--window-size={width},2000"
    budget = "--virtual-time-budget=5000"
    run_browser(tmp_path, page, size, budget, f"--screenshot={picture}")
    shown = run_browser(tmp_path, page, size, budget, "--dump-dom")
    wide, high, pixels = read_png(picture)
    assert (wide, high) == (width, 2000)
    assert len(set(pixels)) > 100
    assert "The guarantee follows, under conditions" in shown
    assert "&lt;img src=x" in shown
    assert "<title>Check a privacy certificate</title>" in shown
    for words in ("What it means for one person", "What was done", "What it does not cover"):
        assert words in shown
