"""What is compared side by side is the same computation, and the numbers say what they mean."""

import json
from typing import get_args

import pytest
import torch
from shell import document

from twomem.bench import measure
from twomem.bench.floor import moved_bytes, operations
from twomem.bench.shapes import BATCHES, SHAPES, Shape
from twomem.bench.stm import FORMS, MODELS, equal_units, make, make_lstm
from twomem.bench.streaming import make_step
from twomem.commands import bench

SMALL = Shape(batch=2, time=3, width=5, queries=2)


@pytest.mark.parametrize("model", MODELS)
def test_all_forms_make_the_same_gradients(model):
    gradients = []
    for form in FORMS:
        made = make(model, form, SMALL)
        made.run()
        gradients.append([p.grad.clone() for p in made.parameters if p.grad is not None])
    for literal, *others in zip(*gradients, strict=True):
        for other in others:
            torch.testing.assert_close(other, literal, rtol=1e-3, atol=1e-5)


def test_passes_take_turns_and_the_first_round_does_not_count():
    order: list[str] = []
    timings = measure.in_turns([lambda: order.append("a"), lambda: order.append("b")], 2)
    assert order == ["a", "b"] * 3
    assert all(0 <= each.fastest <= each.median <= each.slowest for each in timings)


def test_a_failed_measurement_of_memory_is_said():
    with pytest.raises(measure.MeasurementFailed, match="measuring the memory"):
        measure.peak_bytes({"model": "stm", "form": "literal", "shape": {"no": 1}, "threads": 1})


def test_the_command_tells_ratios_of_what_it_measured():
    how = ("--batches", "1", "--time", "2", "--width", "4", "--queries", "2", "--repeats", "1")
    told = document("bench", "stm", *how, "--threads", "1")
    assert [row["model"] for row in told["comparisons"]] == list(MODELS)
    for row in told["comparisons"]:
        literal, fast = row["literal"], row["restructured"]
        ratio = literal["seconds_median"] / fast["seconds_median"]
        assert row["times_faster"] == pytest.approx(ratio)
        assert row["shape"]["time"] == 2
    assert told["environment"]["threads"] == 1


def test_the_literal_form_takes_more_memory_at_size():
    shape = Shape(batch=8, time=12)._asdict()
    peaks = [
        measure.peak_bytes({"model": "stm_released", "form": form, "shape": shape, "threads": 1})
        for form in FORMS
    ]
    if None in peaks:
        pytest.skip("only Linux tells the peak of a process")
    literal, _, fast = peaks
    assert literal > 1.5 * fast


def test_the_command_knows_every_shape():
    assert get_args(bench._What) == ("stm", *SHAPES, "train_step", "scaling")
    assert bench._SUITES["h200"] == (*SHAPES, "train_step")


def test_every_shape_of_the_suite_tells_its_way():
    told = document("bench", "--suite", "h200", "--explain")
    assert {row["shape"] for row in told["ways"]} == set(SHAPES)
    assert all("need a GPU" in row["way"] for row in told["ways"])


def test_a_shape_is_measured_beside_its_floor(tmp_path):
    small = ("--time", "2", "--width", "4", "--queries", "2", "--batches", "2", "--repeats", "1")
    out = tmp_path / "kept.json"
    told = document("bench", "sort", *small, "--out", str(out))
    assert json.loads(out.read_text()) == told
    rows = told["records"]
    assert {row["implementation"] for row in rows} == {"literal", "restructured"}
    assert {row["form"] for row in rows} == {"paper", "released"}
    for row in rows:
        assert (row["shape"], row["precision"], row["batch"]) == ("sort", "fp32", 2)
        assert row["microseconds_per_step"] == pytest.approx(500 * row["milliseconds"])
        assert 0 < row["floor_microseconds_per_step"] < row["microseconds_per_step"]
        assert row["spread"][0] <= row["milliseconds"] <= row["spread"][1]
        assert row["command"].startswith("twomem")


def test_a_step_is_also_called_as_one():
    small = ("--width", "4", "--queries", "2", "--repeats", "1", "--directions", "forward")
    rows = document("bench", "step", *small, "--implementations", "restructured")["records"]
    assert {(row["called"], row["batch"]) for row in rows} == {
        (called, batch) for called in ("sequence", "step") for batch in BATCHES["step"]
    }


def test_a_step_carries_its_state_along():
    seen = []
    step = make_step("stm", SMALL, device="cpu", precision="fp32", kernels=False)
    held = [each.cell_contents for each in step.__closure__ if isinstance(each.cell_contents, list)]
    for _ in range(3):
        seen.append([each.clone() for each in held[0]])
        step()
    assert not any(torch.equal(one, other) for one, other in zip(*seen[1:], strict=True))


def test_the_lstm_has_as_many_parameters():
    shape = SHAPES["sort"]
    assert equal_units(1_139_744, shape) == 512
    made, units = make_lstm(
        shape._replace(width=16, queries=2), device="cpu", precision="fp32", direction="train"
    )
    assert sum(each.numel() for each in made.parameters) == pytest.approx(
        sum(
            each.numel()
            for each in make(
                "stm_released", "restructured", shape._replace(width=16, queries=2)
            ).parameters
        ),
        rel=0.05,
    )
    assert units % 8 == 0


def test_operations_grow_with_the_batch_and_training_moves_more():
    small = Shape(batch=3, time=4, width=8, queries=2)
    once, train = (operations("stm", small, direction) for direction in ("forward", "train"))
    assert once < train
    assert operations("stm", small._replace(batch=6), "train") == 2 * train
    # the formula of both forward gate products alone, two operations for each multiplication
    assert once > 3 * 4 * 2 * 8 * 16 * 8
    assert moved_bytes("stm", small, "forward") < moved_bytes("stm", small, "train")
