"""How long a message of a site is says nothing about its records or its noise."""

from tests.federation.studies import make_study
from tests.federation.wire import meet

ROWS = 30


def lengths(study, folder):
    """What every party sent, where to, and how many bytes; with noise that nobody knows."""
    hub = meet(study, folder, seed=None)
    hub.run()
    assert all(party.outcome.ending == "finished" for party in hub.parties.values())
    front = f"{study.signed.subjects.study}.{study.signed.subjects.run}."
    return {
        (sender, packet.subject.removeprefix(front), len(packet.payload))
        for sender, packet in hub.seen
    }


def rewrite(file, rows):
    """The same number of records, in longer and shorter texts and all of one class."""
    lines = ["x0,x1,x2,town,ill"]
    numbers = ("4", "-4.000000000000", "1e-300", '" 0.5"', "-0", "+3.9999999999999999")
    for row in range(rows):
        x = [numbers[(row + k) % len(numbers)] for k in range(3)]
        lines.append(",".join([*x, "a", "yes"]))
    file.write_text("\n".join(lines) + "\n")


def test_messages_of_a_site_are_as_long_whatever_records_and_noise_are(tmp_path):
    asked = {"agents": 2, "rows": ROWS, "evaluate": None, "rounds": 3}
    first, second = (
        make_study(tmp_path / name, patience=patience, **asked)
        for name, patience in (("usual", 30.0), ("other", 31.0))  # or it were the same run
    )
    for number, file in enumerate(second.files):
        rewrite(file, ROWS + 3 * number)
    seen = lengths(first, tmp_path / "usual")
    assert len(seen) > 10
    assert lengths(second, tmp_path / "other") == seen
