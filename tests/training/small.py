"""A run of a moment, for the tests of training."""

from pathlib import Path
from typing import Any

from twomem import models, tasks
from twomem.core.experiment import Experiment
from twomem.core.train import Train
from twomem.training.journal import read

SIZES: dict[str, dict[str, Any]] = {
    "stm": {"width": 6, "queries": 2, "distilled": 3},
    "stm_released": {"width": 6, "queries": 2, "distilled": 3, "bottleneck": 4, "head": 5},
    "lstm": {"hidden": 5},
}


def experiment(steps: int = 12, *, seed: int = 0, model: str = "stm", **how: Any) -> Experiment:
    """A few updates on the copy task, with a checkpoint every fourth."""
    settings: dict[str, Any] = {"batch": 4, "report_every": 3, "save_every": 4, "test_batches": 1}
    return Experiment(
        task=tasks.load("copy", bits=3, longest=3),
        model=models.load(model, **SIZES[model]),
        train=Train(steps=steps, **{**settings, **how}),
        seed=seed,
    )


def weights(folder: Path) -> bytes:
    """The final weights of a run."""
    return (folder / "model.safetensors").read_bytes()


def numbers(folder: Path) -> list[dict[str, Any]]:
    """What a run measured, but for the time it took."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read(folder)]
