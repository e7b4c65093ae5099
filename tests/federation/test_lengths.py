"""How long a message of a site is says nothing about its records, its noise or its batches."""

from tests.federation.studies import make_study
from tests.federation.wire import meet

ROWS = 30


def lengths(study, folder):
    """What every party sent, where to, and how many bytes; with noise that nobody knows."""
    hub = meet(study, folder, seed=None)
    hub.run()
    assert all(party.outcome.ending == "finished" for party in hub.parties.values())
    return {(sender, packet.subject, len(packet.payload)) for sender, packet in hub.seen}


def rewrite(file, rows):
    """The same number of records, in longer and shorter texts and all of one class."""
    lines = ["x0,x1,x2,town,ill"]
    numbers = ("4", "-4.000000000000", "1e-300", '" 0.5"', "-0", "+3.9999999999999999")
    for row in range(rows):
        x = [numbers[(row + k) % len(numbers)] for k in range(3)]
        lines.append(",".join([*x, "a", "yes"]))
    file.write_text("\n".join(lines) + "\n")


def test_messages_of_a_site_are_as_long_whatever_records_noise_and_batches_are(tmp_path):
    sampled = {"algorithm": "dp-sgd", "options": {"sampling_rate": 0.1}}
    study = make_study(tmp_path / "study", agents=2, rows=ROWS, evaluate=None, rounds=3, **sampled)
    first = lengths(study, tmp_path / "first")
    for number, file in enumerate(study.files):
        rewrite(file, ROWS + 3 * number)
    assert lengths(study, tmp_path / "other") == first
