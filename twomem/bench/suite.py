"""Every implementation of a shape, side by side in one process: records that say all of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch

from twomem.bench import device as on
from twomem.bench.floor import floor_microseconds
from twomem.bench.shapes import Shape
from twomem.bench.stm import MODELS, make, make_lstm

FORM_OF = {"stm": "paper", "stm_released": "released"}
PRECISIONS = ("fp32", "tf32", "half", "bf16")
DIRECTIONS = ("forward", "train")
IMPLEMENTATIONS = ("literal", "restructured", "graph", "kernel", "cudnn_lstm", "cudnn_lstm_graph")
"""`graph` is the restructured form in a CUDA graph; `kernel` stands in a graph too."""


def possible(implementation: str, precision: str, device: str) -> bool:
    """Whether there is such a thing: only kernels and cuDNN have operands of their own."""
    if device == "cpu":
        return implementation in ("literal", "restructured") and precision == "fp32"
    return precision == "fp32" or implementation.startswith(("kernel", "cudnn"))


def records(
    name: str,
    shape: Shape,
    device: str,
    *,
    implementations: Sequence[str] = IMPLEMENTATIONS,
    precisions: Sequence[str] = PRECISIONS,
    directions: Sequence[str] = DIRECTIONS,
    repeats: int = 11,
    most: on.Ceilings | None = None,
) -> Iterator[dict[str, Any]]:
    """Measures one shape; an implementation that fails gives a record with the reason."""
    most = most or on.ceilings(device)
    for implementation in implementations:
        models = ("lstm",) if implementation.startswith("cudnn") else MODELS
        for model in models:
            for precision in precisions:
                if not possible(implementation, precision, device):
                    continue
                for direction in directions:
                    found = _one(
                        model, implementation, shape, device, precision, direction, repeats
                    )
                    form, floor = FORM_OF.get(model), None
                    if form is not None:
                        floor = floor_microseconds(model, shape, direction, precision, most)
                    yield {
                        "shape": name,
                        "implementation": implementation,
                        "form": form,
                        "precision": precision,
                        "direction": direction,
                        **found,
                        "floor_microseconds_per_step": floor,
                    }


def _one(
    model: str,
    implementation: str,
    shape: Shape,
    device: str,
    precision: str,
    direction: str,
    repeats: int,
) -> dict[str, Any]:
    """Time and memory of one implementation, or why there are none."""
    try:
        with _cudnn_as_told(precision):
            run = _pass(model, implementation, shape, device, precision, direction)
            peak = on.peak_gib(run, device)
            if implementation in ("graph", "kernel", "cudnn_lstm_graph"):
                run = on.captured(run)
            found = on.milliseconds(run, device, repeats)
    except RuntimeError as error:
        return {"failed": str(error).splitlines()[0][:200]}
    took = median(found)
    return {
        "milliseconds": took,
        "microseconds_per_step": 1e3 * took / shape.time,
        "spread": [min(found), max(found)],
        "peak_gib": peak,
    }


def _pass(
    model: str, implementation: str, shape: Shape, device: str, precision: str, direction: str
) -> Callable[[], None]:
    how: Any = {"device": device, "precision": precision, "direction": direction}
    if model == "lstm":
        return make_lstm(shape, **how)[0].run
    form = "restructured" if implementation == "graph" else implementation
    return make(model, form, shape, **how).run


@contextmanager
def _cudnn_as_told(precision: str) -> Iterator[None]:
    """Lets cuDNN multiply float32 as float32, unless it is told tf32; PyTorch's default is tf32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before
