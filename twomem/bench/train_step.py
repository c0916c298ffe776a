"""A whole update of training, beside its forward and backward pass alone."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import torch

from twomem import models, tasks
from twomem.bench import device as on
from twomem.core.experiment import Experiment
from twomem.core.train import Train
from twomem.training.supervised import Training

MODELS = ("stm", "stm_released", "lstm")
_TASKS: dict[str, dict[str, Any]] = {"copy": {"shortest": 20}}
"""Tasks, each with one length only."""
_READY = 6
"""Updates after which whatever is captured has been."""


def experiment(task: str, model: str, precision: str, **sizes: int) -> Experiment:
    """A task of one length, at the paper's sizes and training unless told otherwise."""
    kernels = {} if model == "lstm" else {"precision": precision, **sizes}
    return Experiment(
        task=tasks.load(task, **_TASKS[task]), model=models.load(model, **kernels), train=Train()
    )


def records(
    device: str, precisions: Sequence[str], repeats: int, **sizes: int
) -> Iterator[dict[str, Any]]:
    """How much longer an update takes than its forward and backward pass."""
    for task in _TASKS:
        for model in MODELS:
            for precision in precisions if model != "lstm" else precisions[:1]:
                wanted = experiment(task, model, precision, **sizes)
                whole = _whole(wanted, device, repeats)
                alone = _alone(wanted, device, repeats)
                yield {
                    "shape": "train_step",
                    "task": task,
                    "model": model,
                    "precision": precision,
                    "milliseconds": median(whole),
                    "spread": [min(whole), max(whole)],
                    "alone_milliseconds": median(alone),
                    "times_alone": median(whole) / median(alone),
                }


def _whole(wanted: Experiment, device: str, repeats: int) -> list[float]:
    training = Training(wanted, device)
    for _ in range(_READY):
        training.update()
    found = on.milliseconds(training.update, device, repeats)
    training.ask()
    return found


def _alone(wanted: Experiment, device: str, repeats: int) -> list[float]:
    model = wanted.build().to(device)
    batch = wanted.task.draw(wanted.train.batch, wanted.task.generator(0, device))
    parameters = list(model.parameters())

    def run() -> None:
        ys, _ = model(batch.inputs, asked=batch.steps)
        torch.autograd.grad(wanted.task.loss(ys, batch), parameters, allow_unused=True)

    return on.milliseconds(run if device == "cpu" else on.captured(run), device, repeats)
