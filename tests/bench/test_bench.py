"""What is compared side by side is the same computation, and the numbers say what they mean."""

import pytest
import torch
from shell import document

from twomem.bench import measure
from twomem.bench.stm import FORMS, MODELS, Shape, make

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
