"""Where should the blends of STM start? Trains small models from several starts, on two tasks.

    python benchmarks/first_alphas.py [WORKERS]

Each start is trained with three seeds; every run is kept in runs/first_alphas and gone on with if
this is stopped. Writes benchmarks/first_alphas.json, which the documentation quotes.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

STARTS = [
    (1.0, 0.0, 0.0),
    (1.0, 0.0, 0.1),
    (1.0, 0.1, 0.1),
    (1.0, 0.1, 0.0),
    (0.3, 0.0, 0.1),
    (0.1, 0.1, 0.1),
    (0.0, 0.0, 0.0),
]
SEEDS = (0, 1, 2)
HOW: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 4e-3,
    "batch": 64,
    "clip_value": None,
    "clip_norm": 5.0,
    "report_every": 250,
    "save_every": 500,
    "test_batches": 16,
}
TASKS: dict[str, dict[str, Any]] = {
    "associative_retrieval": {
        "settings": {"pairs": 2, "embedding": 32},
        "model": {"width": 32, "queries": 1, "distilled": 32},
        "how": {**HOW, "steps": 1500, "stop_at": {"accuracy": 99.0}},
        "score": "accuracy",
    },
    "copy": {
        "settings": {"bits": 8, "longest": 6},
        "model": {"width": 24, "queries": 2, "distilled": 24},
        "how": {**HOW, "steps": 750, "learning_rate": 2e-3},
        "score": "bit_errors",
    },
}


def train(job: tuple[str, tuple[float, float, float], int]) -> dict[str, Any]:
    """Trains one model on one thread."""
    import torch

    from twomem import models, tasks
    from twomem.core.errors import Diverged
    from twomem.core.experiment import Experiment
    from twomem.core.train import Train
    from twomem.training.runs import run

    torch.set_num_threads(1)
    task, start, seed = job
    plan = TASKS[task]
    experiment = Experiment(
        task=tasks.load(task, **plan["settings"]),
        model=models.load("stm", first_alphas=start, **plan["model"]),
        train=Train(**plan["how"]),
        seed=seed,
    )
    folder = Path("runs/first_alphas") / experiment.short_hash()
    found = {"task": task, "first_alphas": start, "seed": seed}
    try:
        outcome = run(experiment, folder)
    except Diverged as error:
        return {**found, "diverged": str(error)}
    score = round(outcome.scores[plan["score"]], 3)
    return {**found, "updates": outcome.step, plan["score"]: score, "seconds": outcome.seconds}


def main() -> None:
    """Trains all, prints a line for each, and writes the results."""
    from twomem.training.environment import describe

    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    jobs = [(task, start, seed) for task in TASKS for start in STARTS for seed in SEEDS]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        records = []
        for record in pool.map(train, jobs):
            print(json.dumps(record), flush=True)
            records.append(record)
    about = {**describe("cpu"), "command": "python benchmarks/first_alphas.py", "tasks": TASKS}
    text = json.dumps({"about": about, "records": records}, indent=1)
    Path("benchmarks/first_alphas.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
