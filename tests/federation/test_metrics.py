"""Metrics are in Prometheus' format, public, and no full disk behind them ends a process."""

import errno
import json
import re
from pathlib import Path

import pytest

from taciturn.errors import InputError
from taciturn_federation.inbox import Progress
from taciturn_federation.metrics import Metrics
from taciturn_federation.reports import Events, ProgressDisplay, events_to

# the text exposition format, by its specification
NAME, VALUE = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r"[0-9.e+-]+"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})\{{((?:{LABEL},)*{LABEL})\}} ({VALUE})")
COMMENT = re.compile(rf"# (?:HELP ({NAME}) .+|TYPE ({NAME}) (?:counter|gauge))")


def parsed(text):
    """The samples of a text, by name and labels; every family is described once, before them."""
    assert text.endswith("\n")
    samples, described = {}, []
    for line in text.splitlines():
        comment = COMMENT.fullmatch(line)
        if comment:
            described.append(comment.group(1) or comment.group(2))
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        name, labels = sample.group(1), sample.group(2)
        assert described[-2:] == [name, name]
        key = name.removeprefix("taciturn_"), frozenset(
            (part.split("=")[0], part.split("=", 1)[1]) for part in labels.split(",")
        )  # fmt: skip
        assert key not in samples
        samples[key] = float(sample.group(sample.lastindex))
    assert len(described) == 2 * len(set(described))
    return samples


def value(text, name, **labels):
    wanted = {(key, f'"{one}"') for key, one in labels.items()}
    (found,) = (v for (n, given), v in parsed(text).items() if n == name and wanted <= given)
    return found


def test_a_run_and_a_standing_site_write_what_an_operator_watches(tmp_path):
    file = tmp_path / "site.prom"
    metrics = Metrics(file, study="diabetes", party="mercy")
    with events_to(None, quiet=True, metrics=metrics) as events:
        events("hub_away", hub="h:1", reason="gone")
        assert value(file.read_text(), "hub_connected") == 0
        events("connected", hub="h:1")
        events.report("line")
        metrics.show(Progress(3, 50, ("sinai", "charite"), 1.5), {"running": 1, "waiting": 2})
        events("ended", ending="finished", line="the run is finished")
    text = file.read_text()
    assert value(text, "hub_connected", study="diabetes", party="mercy") == 1
    assert value(text, "rounds_finished") == 3
    assert value(text, "rounds") == 50
    assert value(text, "waiting_parties") == 2
    assert value(text, "waiting_seconds") == 1.5
    assert value(text, "runs", state="waiting") == 2
    assert value(text, "events_total", event="report") == 1
    assert value(text, "ended", ending="finished") == 1
    assert value(text, "updated_timestamp_seconds") > 1.7e9
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]  # atomically: no half of it is left


def test_a_label_with_any_character_stays_one_sample():
    text = Metrics(None, party='a"\\\nb').text(1e9)
    assert len(parsed(text)) == 1
    with pytest.raises(AssertionError):
        parsed(text.replace("\\n", "\n"))


def test_metrics_without_room_keep_the_earlier_file_and_end_nothing(tmp_path, monkeypatch):
    file = tmp_path / "site.prom"
    metrics = Metrics(file, party="mercy")
    before = file.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        events = Events(None, quiet=True, metrics=metrics)
        events("connected")
        display = ProgressDisplay(events, tmp_path / "run.json", quiet=True)
        display(Progress(1, 2, ("sinai",), 0.0))
        display.leave()
        assert file.read_text() == before
    events("connected")
    assert value(file.read_text(), "events_total", event="connected") == 2
    with pytest.raises(InputError, match="another file for --metrics"):
        Metrics(tmp_path / "missing" / "x.prom")


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_lines_of_a_run_name_it(tmp_path):
    log = tmp_path / "log"
    with events_to(log, quiet=True, run="0123456789abcdef") as events:
        events("connected", hub="h:1")
    assert json.loads(log.read_text())["run"] == "0123456789abcdef"
