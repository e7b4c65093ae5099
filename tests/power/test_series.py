"""Files of a day: what is understood, and refusals that quote no demand."""

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn_power import network, parse_case
from taciturn_power.dispatch.series import clock, read_series, read_weights

CASE = """mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 1 1 1.1 .9; 7 1 40 10 0 0 1 1 0 1 1 1.1 .9];
mpc.gen = [1 71 0 90 -90 1 1 1 200 0];
mpc.branch = [1 7 .01 .1 0 90 0 0 0 0 1];
"""
SECRET = "73.19"
ROWS = ["1,0,0,0", f"7,0,{SECRET},9", "1,0.5,1,2", "7,0.5,50,8", "1,1,0,0", "7,1,60,7"]
HEAD = "bus,time,MW,MVAr"


@pytest.fixture(scope="module")
def net():
    return network(parse_case(CASE, name="own", source="own.m"))


def written(tmp_path, *lines, name="demand.csv"):
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_day_is_read_in_any_order_of_rows_and_columns_and_from_several_files(net, tmp_path):
    whole = read_series([written(tmp_path, HEAD, *ROWS)], net)
    np.testing.assert_array_equal(whole.hours, [0, 0.5, 1])
    assert whole.step_hours == 0.5
    np.testing.assert_allclose(whole.demand[:, 1], [[0.7319, 0.09], [0.5, 0.08], [0.6, 0.07]])
    turned = [",".join(row.split(",")[::-1]) for row in reversed(ROWS)]
    parts = [
        written(tmp_path, " mvar, MW ,Time,BUS", *(r for r in turned if r.endswith(bus)), name=bus)
        for bus in ("1", "7")
    ]
    np.testing.assert_array_equal(read_series(parts, net).demand, whole.demand)


@pytest.mark.parametrize(
    "times",
    [
        ("07:20", "07:40", "08:00"),
        ("2026-01-05 07:20", "2026-01-05 07:40", "2026-01-05T08:00"),
        ("2026-01-05T07:20+01:00", "2026-01-05T07:40+01:00", "2026-01-05T08:00+01:00"),
        ("7.333333", "7.666667", "8"),
    ],
)
def test_times_are_understood_as_they_are_written(net, tmp_path, times):
    rows = [f"{bus},{time},1,1" for time in times for bus in (1, 7)]
    series = read_series([written(tmp_path, HEAD, *rows)], net)
    assert series.step_hours == pytest.approx(1 / 3, abs=1e-6)
    assert [clock(hour % 24) for hour in series.hours[1:]][-1] in {"08:00", "07:00"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([HEAD, *ROWS[:-1]], "bus 7 of own has no row at step 3 of 3"),
        ([HEAD, *ROWS, f"7,0.5,{SECRET},9"], "line 8 repeats a bus and time"),
        ([HEAD, *ROWS[:-1], f"7,1,nan,{SECRET}"], "MW is no finite number"),
        ([HEAD, *ROWS[:-1], f"7,1,1,{SECRET}*2"], "MVAr is no finite number"),
        ([HEAD, *ROWS, "1,2.5,0,0", f"7,2.5,{SECRET},1"], "not equally long, first after step 3"),
        ([HEAD, *ROWS, f"9,1,{SECRET},1"], "a bus that is not in service in own"),
        ([HEAD, *(f"{r.split(',')[2]},{r[2:]}" for r in ROWS)], "names a bus that|no whole number"),
        ([HEAD, *ROWS, f"7,{SECRET}%,1,1"], "time is neither hours"),
        ([HEAD, *ROWS, f"1,-0.5,{SECRET},0", "7,-0.5,1,1"], "time is below 0"),
        ([HEAD, *ROWS, "1,9999-12-31T23:00-08:00,1,1"], "time is neither hours"),
        ([HEAD, *ROWS, "1,1e300,1,1"], "time is neither hours"),
        ([HEAD, *ROWS[:2]], "the day has 1 steps"),
        ([HEAD], "there are no rows"),
        ([], "does not name the columns"),
        (ROWS, "does not name the columns"),
        ([HEAD + ",note", *ROWS], "does not name the columns"),
        ([HEAD, *ROWS, f"7,1,{SECRET}"], "has 3 cells"),
        ([HEAD, *ROWS, f'7,1,"{SECRET}' + "9" * 200_000], "no CSV file that can be read"),
    ],
)
def test_a_series_that_is_no_day_is_one_line_that_quotes_no_demand(net, tmp_path, lines, says):
    with pytest.raises(InputError, match=says) as caught:
        read_series([written(tmp_path, *lines)], net)
    assert "\n" not in str(caught.value)
    assert "73" not in str(caught.value).replace(str(tmp_path), "")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["1,0,0,0", f"7,1,{SECRET},9", "1,2,1,1", "7,3,50,8"], "not equally long"),
        ([f"1,9,{SECRET},0", f"7,9,{SECRET},9", "1,9,73.3,2"], "no row at step 2 of 2"),
    ],
)
def test_demands_in_the_column_of_times_are_not_quoted(net, tmp_path, rows, says):
    """The column that the first line calls time holds MW."""
    with pytest.raises(InputError, match=says) as caught:
        read_series([written(tmp_path, "bus,MW,time,MVAr", *rows)], net)
    assert "73" not in str(caught.value).replace(str(tmp_path), "")


def test_hours_are_counted_from_the_first_day_and_weights_may_name_dates_too(net, tmp_path):
    times = [f"2026-01-05T{hour:02d}:00" for hour in (22, 23)] + ["2026-01-06"]
    rows = [f"{bus},{time},1,1" for time in times for bus in (1, 7)]
    hours = read_series([written(tmp_path, HEAD, *rows)], net).hours
    np.testing.assert_array_equal(hours, [22, 23, 24])
    weights = [f"{time},{weight}" for weight, time in enumerate(times, start=1)]
    file = written(tmp_path, "time,weight", *weights, name="weights.csv")
    np.testing.assert_array_equal(read_weights(file, hours), [1, 2, 3])


def test_a_file_that_is_too_long_no_text_or_not_there_is_refused(net, tmp_path):
    rows = [f"{bus},{step},1,1" for step in range(1441) for bus in (1, 7)]
    with pytest.raises(InputError, match="1441 steps; give 2 to 1440"):
        read_series([written(tmp_path, HEAD, *rows)], net)
    (tmp_path / "own.bin").write_bytes(b"bus,time,MW,MVAr\n\xff\xfe7,0,1,1\n")
    for name in ("own.bin", "none.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_series([tmp_path / name], net)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["0,1", "0.5,2"], "the 2 times in .* are not the 3 steps"),
        (["0,1", "0.5,2", "1.5,1"], "the 3 times in .* are not the 3 steps"),
        (["0,1", "0.5,nan", "1,1"], "a weight is a number above 0"),
        (["0,1", "0.5,2", "0.5,2"], "line 4 repeats a time"),
        ([], "no weights"),
    ],
)
def test_weights_that_are_not_of_the_steps_are_refused(tmp_path, rows, says):
    hours = np.array([0.0, 0.5, 1.0])
    good = written(tmp_path, "weight,time", "3,1", "1,0", "2,00:30")
    np.testing.assert_array_equal(read_weights(good, hours), [1, 2, 3])
    with pytest.raises(InputError, match=says):
        read_weights(written(tmp_path, "time,weight", *rows), hours)
