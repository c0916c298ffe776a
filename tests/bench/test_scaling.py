"""The cost over sizes: every size once, and ratios of what was measured."""

import pytest
from shell import document, run

from twomem.bench.scaling import Ranges, over_batch, over_time, statements
from twomem.report import pictures

SIZES = ("--width", "4", "--queries", "2", "--repeats", "1", "--directions", "forward")
TIMES = ("--times", "2", "--times", "4", "--batch", "2")
BATCHES = ("--batches", "1", "--batches", "2", "--time", "4")
RANGES = Ranges(times=(10, 100, 1000), batches=(1, 2), time=100, batch=2)


def record(time, batch, milliseconds, **more):
    head = {"implementation": "kernel", "form": "paper", "precision": "half", "direction": "train"}
    each = 1e3 * milliseconds / time
    found = {"milliseconds": milliseconds, "microseconds_per_step": each}
    return {**head, "time": time, "batch": batch, **found, **more}


MADE_UP = [record(10, 2, 9.0), record(100, 2, 10.0), record(1000, 2, 120.0), record(100, 1, 4.0)]
NAME = "kernel paper half train"


def test_the_usual_sizes_are_measured_once_each():
    points = Ranges().points
    assert len(points) == len(set(points)) == 7 + 10 - 1
    assert points[0] == (100, 1)
    assert points[-1] == (10_000, 128)


def test_lines_and_ratios_are_those_of_the_records():
    assert over_time(MADE_UP, RANGES) == {NAME: [(10, 900.0), (100, 100.0), (1000, 120.0)]}
    assert over_batch(MADE_UP, RANGES) == {NAME: [(1, 4.0), (2, 10.0)]}
    (found,) = statements(MADE_UP, RANGES, "cpu")
    assert (found["from_time"], found["to_time"], found["times_a_step"]) == (100, 1000, 1.2)
    assert (found["from_batch"], found["to_batch"], found["times_a_pass"]) == (1, 2, 2.5)


def test_what_did_not_fit_is_left_out():
    failed = {**record(1000, 2, 1.0), "failed": "out of memory"}
    (found,) = statements([*MADE_UP[:2], failed], RANGES, "cpu")
    assert (found["to_time"], found["times_a_step"]) == (100, 1.0)
    assert statements([failed], RANGES, "cpu") == []


def test_the_command_measures_and_draws(tmp_path):
    picture = tmp_path / "scaling.svg"
    told = document("bench", "scaling", *SIZES, *TIMES, *BATCHES, "--plot", str(picture))
    rows = [row for row in told["records"] if row["form"] == "paper"]
    assert [(row["time"], row["batch"]) for row in rows] == [(2, 2), (4, 1), (4, 2)]
    assert {row["shape"] for row in told["records"]} == {"scaling"}
    short, one, both = (row["milliseconds"] for row in rows)
    assert told["scaling"][0]["times_a_step"] == pytest.approx(both / 4 / (short / 2))
    assert told["scaling"][0]["times_a_pass"] == pytest.approx(both / one)
    assert picture.stat().st_size > 1000


def test_the_command_says_what_sizes_cost():
    said = run("bench", "scaling", *SIZES, *TIMES, *BATCHES).stdout
    assert "restructured paper fp32 forward: a step of 4 steps costs" in said
    assert "2 sequences cost" in said


def test_a_picture_that_cannot_be_is_refused_before_anything_is_measured(monkeypatch):
    how = ("bench", "scaling", *SIZES, *TIMES, *BATCHES, "--plot")
    assert "is no picture" in run(*how, "scaling.doc").stderr
    monkeypatch.setattr(pictures, "find_spec", lambda _: None)
    refused = run(*how, "scaling.png")
    assert refused.stderr == "twomem: drawing needs matplotlib: pip install 'twomem[train]'\n"
    assert "only scaling is drawn" in run("bench", "sort", "--plot", "sort.png").stderr
