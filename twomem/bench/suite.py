"""Every implementation of a shape, side by side in one process: records that say all of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch

from twomem.bench import device as on
from twomem.bench.cases import Case, Record
from twomem.bench.floor import floor_microseconds
from twomem.bench.shapes import Shape
from twomem.bench.stm import MODELS, make, make_lstm
from twomem.bench.streaming import make_step

FORM_OF = {"stm": "paper", "stm_released": "released"}
PRECISIONS = ("fp32", "tf32", "half", "bf16")
DIRECTIONS = ("forward", "train")
IMPLEMENTATIONS = ("kernel", "cudnn_lstm_graph", "graph", "cudnn_lstm", "restructured", "literal")
"""`graph` is the restructured form in a CUDA graph; `kernel` stands in a graph too. The slowest last."""
_IN_GRAPHS = ("graph", "kernel", "cudnn_lstm_graph")


class How(NamedTuple):
    """What is asked for, of every shape alike."""

    device: str
    implementations: Sequence[str] = IMPLEMENTATIONS
    precisions: Sequence[str] = PRECISIONS
    directions: Sequence[str] = DIRECTIONS
    repeats: int = 11
    seconds: float = 1.0
    """After which three times of a pass are enough."""


class One(NamedTuple):
    """One computation: a model, how it is computed, and at which sizes."""

    model: str
    implementation: str
    precision: str
    direction: str
    shape: Shape
    called: str = "sequence"
    """`step` is the model's own method, which reads one input and carries its state along."""


def possible(implementation: str, precision: str, device: str) -> bool:
    """Whether there is such a thing: only kernels and cuDNN have operands of their own."""
    if device == "cpu":
        return implementation in ("literal", "restructured") and precision == "fp32"
    return precision == "fp32" or implementation.startswith(("kernel", "cudnn"))


def cases(name: str, shape: Shape, how: How, most: on.Ceilings | None) -> Iterator[Case]:
    """Everything of one shape; a floor for each that has one, if the ceilings are known."""
    for implementation in how.implementations:
        lstm = implementation.startswith("cudnn")
        for model in ("lstm",) if lstm else MODELS:
            for precision in how.precisions:
                if possible(implementation, precision, how.device):
                    for direction in how.directions:
                        one = One(model, implementation, precision, direction, shape)
                        yield case(name, one, how, most)
                        streams = implementation != "literal" and not lstm
                        if name == "step" and direction == "forward" and streams:
                            yield case(name, one._replace(called="step"), how, most)


def case(name: str, one: One, how: How, most: on.Ceilings | None) -> Case:
    """One computation as a case of a shape."""
    head = {
        "shape": name,
        "implementation": one.implementation,
        "form": FORM_OF.get(one.model),
        "precision": one.precision,
        "direction": one.direction,
        "called": one.called,
        "batch": one.shape.batch,
        "time": one.shape.time,
        "width": one.shape.width,
        "queries": one.shape.queries,
    }
    return Case(head, partial(measure, one, how, most))


def measure(one: One, how: How, most: on.Ceilings | None) -> Record:
    """Time and memory of one computation, and its floor."""
    with cudnn_as_told(one.precision):
        run = _pass(one, how.device)
        peak = on.peak_gib(run, how.device)
        if one.implementation in _IN_GRAPHS:
            run = on.captured(run)
        found = on.milliseconds(run, how.device, how.repeats, how.seconds)
    floor = None
    if most is not None and one.model in FORM_OF:
        floor = floor_microseconds(one.model, one.shape, one.direction, one.precision, most)
    return {**told(found, one.shape.time, peak), "floor_microseconds_per_step": floor}


def told(found: list[float], time: int, peak: float | None) -> Record:
    """What every record tells of its times, in milliseconds, and of its memory."""
    return {
        "milliseconds": median(found),
        "microseconds_per_step": 1e3 * median(found) / time,
        "spread": [min(found), max(found)],
        "peak_gib": peak,
    }


def _pass(one: One, device: str) -> Callable[[], None]:
    how: Any = {"device": device, "precision": one.precision}
    if one.called == "step":
        return make_step(one.model, one.shape, **how, kernels=one.implementation == "kernel")
    how["direction"] = one.direction
    if one.model == "lstm":
        return make_lstm(one.shape, **how)[0].run
    form = "restructured" if one.implementation == "graph" else one.implementation
    return make(one.model, form, one.shape, **how).run


@contextmanager
def cudnn_as_told(precision: str) -> Iterator[None]:
    """Lets cuDNN multiply float32 as float32, unless it is told tf32; PyTorch's default is tf32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before
