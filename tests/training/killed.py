"""A run that is killed at random moments and gone on with, over and over, in forked processes.

    python tests/training/killed.py [KILLS] [SEED]

ends with an error if the weights ever differ from those of a run that nobody stopped.
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.utils.tensorboard  # here, so that no child has to

from twomem import models, tasks
from twomem.core.experiment import Experiment
from twomem.core.train import Train
from twomem.training.runs import run


def experiment(steps: int) -> Experiment:
    """A run of a second or two, with a checkpoint every few updates."""
    how = Train(steps=steps, batch=4, report_every=5, save_every=3, test_batches=1)
    return Experiment(
        task=tasks.load("copy", bits=3, longest=3),
        model=models.load("stm", width=6, queries=2, distilled=3),
        train=how,
    )


def started(steps: int, folder: Path) -> int:
    """Starts a run in a process of its own, which shares what is imported; returns its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            code = 0 if run(experiment(steps), folder).done else 3
        finally:
            os._exit(code)
    return child


def survives(kills: int, steps: int, folder: Path, dice: random.Random) -> tuple[int, bytes]:
    """Kills the run after random times until it is done or was killed `kills` times.

    Returns how often it was really killed, and the final weights.
    """
    killed, longest = 0, 0.4
    while True:
        child = started(steps, folder)
        if killed < kills:
            time.sleep(dice.uniform(0, longest))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        elif os.WEXITSTATUS(status) == 0:
            return killed, (folder / "model.safetensors").read_bytes()
        else:
            raise RuntimeError(f"a run that was gone on with ended with {status}")


def main(kills: int, seed: int) -> None:
    """Kills many runs, each up to ten times, and compares their weights."""
    dice = random.Random(seed)
    torch.set_num_threads(1)
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        run(experiment(60), Path(folder) / "whole")
        whole = (Path(folder) / "whole" / "model.safetensors").read_bytes()
        for number in range(10 * kills):
            if total >= kills:
                break
            left = min(10, kills - total)
            killed, weights = survives(left, 60, Path(folder) / str(number), dice)
            total += killed
            if weights != whole:
                raise SystemExit(f"after {killed} kills the weights of run {number} differ")
    print(f"{total} kills, every run ended with the same weights")  # noqa: T201


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], *("100", "0")[len(sys.argv) - 1 :])))
