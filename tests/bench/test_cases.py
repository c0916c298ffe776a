"""Records are kept as they are measured: what stops, goes on; what fails, says why."""

import json
from collections import Counter

import pytest
from shell import document, run

from twomem import tasks
from twomem.bench import device, suite
from twomem.bench.cases import Case, Kept, measured
from twomem.bench.shapes import Shape
from twomem.commands.bench import _SUITES
from twomem.commands.bench_records import Wish, _cases
from twomem.core.errors import Diverged, SettingsError

HERE = {"commit": "abc", "device": "cpu", "command": "twomem bench"}


def case(name, calls, *, fails=False):
    def measure():
        calls.append(name)
        if fails:
            raise RuntimeError("no room\nmore")
        return {"milliseconds": 1.0}

    return Case({"shape": name}, measure)


def test_every_record_is_in_the_file_at_once(tmp_path):
    path, calls = tmp_path / "kept.json", []
    found = measured([case("a", calls), case("b", calls)], "cpu", Kept(HERE, path))
    for names in (["a"], ["a", "b"]):
        next(found)
        assert [each["shape"] for each in json.loads(path.read_text())["records"]] == names


def test_what_is_there_is_not_measured_again_unless_it_failed(tmp_path):
    path, calls = tmp_path / "kept.json", []
    first = [case("a", calls), case("b", calls, fails=True)]
    failed = list(measured(first, "cpu", Kept(HERE, path)))[1]
    assert failed == {"shape": "b", "failed": "no room", "command": "twomem bench", "commit": "abc"}
    kept = Kept({**HERE, "command": "twomem bench --resume"}, path, resume=True)
    rows = list(measured([case(name, calls) for name in "abc"], "cpu", kept))
    assert calls == ["a", "b", "b", "c"]
    assert json.loads(path.read_text())["records"] == rows == kept.records
    assert [row["command"] for row in rows][1:] == ["twomem bench --resume"] * 2


def test_records_of_other_code_are_refused(tmp_path):
    path = tmp_path / "kept.json"
    list(measured([case("a", [])], "cpu", Kept(HERE, path)))
    with pytest.raises(SettingsError, match=r"another environment \(commit\): choose another"):
        Kept({**HERE, "commit": "def"}, path, resume=True)
    assert Kept({**HERE, "commit": "def"}, path).records == []


def test_the_command_goes_on_with_a_file(tmp_path):
    out = ("--out", str(tmp_path / "kept.json"))
    small = ("--time", "2", "--width", "4", "--queries", "2", "--batches", "2", "--repeats", "1")
    how = (*small, *out, "--implementations", "restructured", "--directions", "forward")
    first = document("bench", "sort", *how)
    more = document("bench", "sort", *how, "--implementations", "literal", "--resume")
    assert more["records"][: len(first["records"])] == first["records"]
    assert len(more["records"]) == 2 * len(first["records"])
    assert "name it by --out" in run("bench", "sort", "--resume").stderr


def test_a_pass_that_fails_is_a_record_with_its_reason(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no room\nmore")

    monkeypatch.setattr(suite, "make", broken)
    small = Shape(batch=1, time=1, width=4, queries=1)
    how = suite.How("cpu", ["literal"], directions=["forward"])
    found = measured(suite.cases("sort", small, how, None), "cpu", Kept(HERE, None))
    assert [row["failed"] for row in found] == ["no room", "no room"]


def test_the_suite_has_everything_once(monkeypatch):
    monkeypatch.setattr(device, "ceilings", lambda _: None)
    rest = ((), (), None, {}, (), suite.PRECISIONS, suite.DIRECTIONS, 11)
    found = list(_cases(Wish(_SUITES["h200"], "cuda", *rest)))
    heads = [frozenset(each.head.items()) for each in found]
    assert len(heads) == len(set(heads))
    count = Counter((each.head["shape"], each.head["implementation"]) for each in found)
    # two models, four precisions, two directions; a step is also called as one, in two batches
    assert count["sort", "kernel"] == 2 * 4 * 2
    assert count["sort", "literal"] == count["sort", "graph"] == 2 * 2
    assert count["sort", "cudnn_lstm"] == count["sort", "cudnn_lstm_graph"] == 4 * 2
    assert count["step", "kernel"] == 2 * (2 * 4 * 2 + 2 * 4)
    assert count["step", "literal"] == 2 * count["sort", "literal"]
    assert count["train_step", "kernel"] == len(tasks.names()) * 2 * 4
    assert count["train_step", "cudnn_lstm_graph"] == len(tasks.names()) * 2


def test_long_passes_are_timed_three_times_and_short_ones_in_a_row():
    calls = []
    times = device.milliseconds(lambda: calls.append(1), "cpu", repeats=9, seconds=0.0)
    assert len(times) == 3
    assert len(calls) > 3 + 3 * 10
    assert len(device.milliseconds(lambda: None, "cpu", repeats=2, seconds=0.0)) == 2


def test_training_that_diverges_is_a_record_too(tmp_path):
    def diverge():
        raise Diverged("the loss is not finite at update 1")

    (row,) = measured([Case({"shape": "a"}, diverge)], "cpu", Kept(HERE, tmp_path / "kept.json"))
    assert row["failed"] == "the loss is not finite at update 1"
