"""Both STMs on a CPU, restructured against their formulas: time in turns, memory in processes."""

from collections.abc import Callable
from typing import Any

import torch

from twomem.bench import measure
from twomem.bench.shapes import Shape
from twomem.bench.stm import FORMS, make


def compare(
    model: str, shape: Shape, repeats: int, done: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """One model at one shape, in all forms."""
    passes = [make(model, form, shape).run for form in FORMS]
    timings = measure.in_turns(passes, repeats, done)
    found: dict[str, Any] = {"model": model, "shape": shape._asdict()}
    for form, timing in zip(FORMS, timings, strict=True):
        what = {"model": model, "form": form, "shape": shape._asdict()}
        peak = measure.peak_bytes({**what, "threads": torch.get_num_threads()})
        done()
        found[form] = {
            **{f"seconds_{k}": v for k, v in timing._asdict().items()},
            "peak_bytes": peak,
        }
    literal, summed, fast = (found[form] for form in FORMS)
    found["times_faster"] = literal["seconds_median"] / fast["seconds_median"]
    found["times_faster_than_summed"] = summed["seconds_median"] / fast["seconds_median"]
    known = literal["peak_bytes"] is not None and fast["peak_bytes"]
    found["times_smaller"] = literal["peak_bytes"] / fast["peak_bytes"] if known else None
    return found
