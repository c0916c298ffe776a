"""A whole update of training, beside its forward and backward pass alone.

Both read batches of one size and one length, both stand in a graph on a GPU, and they take turns.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch

from twomem import models, tasks
from twomem.bench import device as on
from twomem.bench.cases import Case, Record
from twomem.bench.floor import floor_microseconds
from twomem.bench.shapes import Shape
from twomem.bench.suite import FORM_OF, How, cudnn_as_told, told
from twomem.core.experiment import Experiment
from twomem.core.task import Batch
from twomem.core.train import Train
from twomem.training.supervised import Training

MODELS = ("stm", "stm_released", "lstm")
ONE_LENGTH: dict[str, dict[str, Any]] = {"copy": {"shortest": 20}}
"""What gives a task one length only, where it has several."""
_READY = 6
"""Updates after which whatever is captured has been."""


def experiment(task: str, model: str, precision: str, **sizes: int) -> Experiment:
    """A task of one length, at the paper's sizes and training unless told otherwise."""
    how: dict[str, Any] = {name: value for name, value in sizes.items() if name == "batch"}
    own = {name: value for name, value in sizes.items() if name != "batch"}
    config = models.load(model, **({} if model == "lstm" else {"precision": precision, **own}))
    wanted = tasks.load(task, **ONE_LENGTH.get(task, {}))
    return Experiment(task=wanted, model=config, train=Train(**how))


def cases(how: How, most: on.Ceilings | None, **sizes: int) -> Iterator[Case]:
    """Every task and model, at every precision that it is trained at."""
    if "train" not in how.directions:
        return
    for task in tasks.names():
        for model in MODELS:
            for precision in how.precisions:
                implementation = _implementation(model, precision, how)
                if implementation is not None:
                    wanted = experiment(task, model, precision, **sizes)
                    head = _head(wanted, implementation, precision)
                    yield Case(head, partial(_measure, wanted, precision, how, most))


def _implementation(model: str, precision: str, how: How) -> str | None:
    """By what a model is trained on this device; none if not at this precision, or not asked for."""
    if how.device == "cpu":
        kind = "lstm" if model == "lstm" else "restructured"
        return kind if precision == "fp32" else None
    kind = "cudnn_lstm_graph" if model == "lstm" else "kernel"
    # an LSTM is trained in float32, which cuDNN multiplies as it is or as tf32
    trains = model != "lstm" or precision in ("fp32", "tf32")
    return kind if trains and kind in how.implementations else None


def _head(wanted: Experiment, implementation: str, precision: str) -> Record:
    sizes = wanted.model.settings()
    return {
        "shape": "train_step",
        "implementation": implementation,
        "form": FORM_OF.get(wanted.model.name),
        "precision": precision,
        "direction": "train",
        "task": wanted.task.name,
        "model": wanted.model.name,
        "batch": wanted.train.batch,
        **{name: sizes[name] for name in ("width", "queries", "hidden") if name in sizes},
    }


def _measure(wanted: Experiment, precision: str, how: How, most: on.Ceilings | None) -> Record:
    """How much longer an update takes than its forward and backward pass."""
    with cudnn_as_told(precision):
        training = Training(wanted, how.device)
        peak = on.peak_gib(training.update, how.device)
        for _ in range(_READY):
            training.update()
        batch = wanted.task.draw(wanted.train.batch, wanted.task.generator(0, how.device))
        runs = [training.update, _alone(wanted, batch, how.device)]
        whole, alone = on.in_turns(runs, how.device, how.repeats, 2 * how.seconds)
    training.ask()
    ratios = [one / other for one, other in zip(whole, alone, strict=True)]
    return {
        "time": len(batch.inputs),
        **told(whole, len(batch.inputs), peak),
        "floor_microseconds_per_step": _floor(wanted, batch, precision, most),
        "alone_milliseconds": median(alone),
        "alone_spread": [min(alone), max(alone)],
        "times_alone": median(ratios),
        "times_alone_spread": [min(ratios), max(ratios)],
    }


def _alone(wanted: Experiment, batch: Batch, device: str) -> Callable[[], object]:
    """Forward and backward of the same model over one batch that is there already."""
    model = wanted.build().to(device)
    parameters = list(model.parameters())

    def run() -> None:
        ys, _ = model(batch.inputs, asked=batch.steps)
        torch.autograd.grad(wanted.task.loss(ys, batch), parameters, allow_unused=True)

    return run if device == "cpu" else on.captured(run)


def _floor(
    wanted: Experiment, batch: Batch, precision: str, most: on.Ceilings | None
) -> float | None:
    """That of forward and backward alone."""
    if most is None or wanted.model.name not in FORM_OF:
        return None
    sizes = wanted.model.settings()
    shape = Shape(
        wanted.train.batch,
        len(batch.inputs),
        answers=int(batch.steps.sum()),
        width=sizes["width"],
        queries=sizes["queries"],
        inputs=wanted.task.embedding or wanted.task.input_size,
        outputs=wanted.task.output_size,
    )
    return floor_microseconds(wanted.model.name, shape, "train", precision, most)
