"""A first look at the kernels on a GPU: times, peak memory, and errors against float64.

    python benchmarks/stm_on_gpu.py [FILE]

Each line is a record; with FILE they are kept there as JSON, with where and when they were made. A
sequence is read with its answers asked at the last steps, `train` is forward and backward of the
mean of squared answers. `eager` is how a user calls it, `graph` the same in a captured CUDA graph. The
LSTM's `tf32` is PyTorch's own default for cuDNN, whose float32 products are tf32.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch

from twomem import models
from twomem.ops.choice import without_kernels
from twomem.training.environment import describe

SHAPES: dict[str, dict[str, Any]] = {
    "sort": {"batch": 128, "time": 36, "answers": 16, "model": {}},
    "sort, last answer": {"batch": 128, "time": 36, "answers": 1, "model": {}},
    "nth_farthest": {"batch": 1600, "time": 8, "answers": 1, "model": {"width": 128}},
    "nth_farthest, no gates": {
        "batch": 1600,
        "time": 8,
        "answers": 1,
        "model": {"width": 128, "gates": False},
    },
    "babi": {
        "batch": 128,
        "time": 70,
        "answers": 1,
        "model": {"width": 90, "queries": 20, "alphas": (1.0, None, 0.0)},
    },
    "step, batch 1": {"batch": 1, "time": 1, "answers": 1, "model": {}},
    "step, batch 32": {"batch": 32, "time": 1, "answers": 1, "model": {}},
}
INPUTS, OUTPUTS = 34, 32


def milliseconds(run: Callable[[], Any], repeats: int = 10) -> list[float]:
    """Times of a pass, by events of the device, after three that do not count."""
    found = []
    for turn in range(repeats + 3):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        if turn > 2:  # noqa: PLR2004
            found.append(start.elapsed_time(stop))
    return found


def captured(run: Callable[[], Any]) -> Callable[[], None]:
    """The same pass as one graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def passes(model: Any, shape: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Forward alone, and forward and backward."""
    xs = torch.randn(shape["time"], shape["batch"], INPUTS, device="cuda")
    asked = torch.arange(shape["time"]) >= shape["time"] - shape["answers"]
    parameters = list(model.parameters())

    def train() -> None:
        ys, _ = model(xs, asked=asked)
        torch.autograd.grad(ys.float().square().mean(), parameters, allow_unused=True)

    def forward() -> None:
        with torch.no_grad():
            model(xs, asked=asked)

    return {"forward": forward, "train": train}


def times(name: str, model_name: str, precision: str, *, kernels: bool = True) -> Iterator[Any]:
    """Every record of one model on one shape."""
    shape = SHAPES[name]
    settings = shape["model"] if model_name != "lstm" else {}
    autocast = model_name == "lstm" and precision == "bf16"
    if model_name != "lstm":
        settings = {**settings, "precision": precision}
    model = models.load(model_name, **settings).build(INPUTS, OUTPUTS).cuda()
    narrow = torch.autocast("cuda", dtype=torch.bfloat16) if autocast else nullcontext()
    with nullcontext() if kernels else without_kernels(), narrow:
        for direction, run in passes(model, shape).items():
            run()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            eager = milliseconds(run, 5)
            peak = torch.cuda.max_memory_allocated() - before
            for called, found in (("eager", eager), ("graph", milliseconds(captured(run)))):
                yield {
                    "shape": name,
                    "model": model_name,
                    "implementation": "kernel" if kernels else "restructured",
                    "precision": precision,
                    "direction": direction,
                    "called": called,
                    "milliseconds": median(found),
                    "spread": [min(found), max(found)],
                    "microseconds_per_step": 1e3 * median(found) / shape["time"],
                    "peak_gib": peak / 2**30 if called == "eager" else None,
                }


def records() -> Iterator[Any]:
    """All that is measured."""
    for precision in ("half", "fp32"):
        for name in ("stm_released", "stm"):
            yield from times("sort", name, precision)
    yield from times("sort, last answer", "stm_released", "half")
    for precision in ("tf32", "bf16"):
        yield from times("sort", "lstm", precision)
    for precision in ("half", "fp32"):
        for shape in ("nth_farthest", "nth_farthest, no gates", "babi"):
            yield from times(shape, "stm_released", precision)
    for shape in ("step, batch 1", "step, batch 32"):
        yield from times(shape, "stm_released", "half")


def main() -> None:
    """Measures, prints, and keeps the records."""
    found = []
    for record in records():
        found.append(record)
        print(json.dumps(record), flush=True)
    if sys.argv[1:]:
        about = {**describe("cuda"), "command": "python benchmarks/stm_on_gpu.py"}
        text = json.dumps({"environment": about, "records": found}, indent=1)
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
