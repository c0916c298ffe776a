"""Where should the blends of STM start? Trains models from several starts, on three plans.

    python benchmarks/first_alphas.py [PLAN ...] [--workers N] [--device DEVICE]

Every run is kept in runs/first_alphas, and gone on with if this is stopped. What the runs of a plan
have measured is then written to benchmarks/first_alphas/PLAN.json, which the documentation quotes;
with `--workers 0` nothing is trained, and what there is so far is written.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

Start = tuple[float, float, float]
STARTS: list[Start] = [
    (1.0, 0.0, 0.0),
    (1.0, 0.1, 0.0),
    (1.0, 0.0, 0.1),
    (1.0, 0.1, 0.1),
    (0.1, 0.1, 0.1),
    (0.0, 0.0, 0.0),
    (1.0, 1.0, 0.0),
]
SMALL: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 4e-3,
    "batch": 64,
    "clip_value": None,
    "clip_norm": 5.0,
    "report_every": 250,
    "save_every": 500,
    "test_batches": 16,
}
EPOCH = 782  # updates of 128 that make 100,000 sequences


class Plan(NamedTuple):
    """A task, the sizes of the STM that learns it, how, and with which seeds."""

    task: str
    settings: dict[str, Any]
    model: dict[str, Any]
    how: dict[str, Any]
    seeds: tuple[int, ...]


PLANS = {
    "small_retrieval": Plan(
        "associative_retrieval",
        {"pairs": 2, "embedding": 32},
        {"width": 32, "queries": 1, "distilled": 32},
        {**SMALL, "steps": 1500, "stop_at": {"accuracy": 99.0}},
        tuple(range(8)),
    ),
    "small_copy": Plan(
        "copy",
        {"bits": 8, "longest": 6},
        {"width": 24, "queries": 2, "distilled": 24},
        {**SMALL, "steps": 750, "learning_rate": 2e-3},
        (0, 1, 2),
    ),
    # the paper's sizes and training; for a GPU
    "retrieval": Plan(
        "associative_retrieval",
        {"pairs": 14},
        {"queries": 1},
        {"steps": 6 * EPOCH, "report_every": EPOCH, "save_every": EPOCH, "test_batches": 40},
        (0,),
    ),
}


def job(plan: str, start: Start, seed: int) -> tuple[Any, Path]:
    """The experiment, and the folder that it is kept in."""
    from twomem import models, tasks
    from twomem.core.experiment import Experiment
    from twomem.core.train import Train

    what = PLANS[plan]
    experiment = Experiment(
        task=tasks.load(what.task, **what.settings),
        model=models.load("stm", first_alphas=start, **what.model),
        train=Train(**what.how),
        seed=seed,
    )
    return experiment, Path("runs/first_alphas") / plan / experiment.short_hash()


def train(plan: str, start: Start, seed: int, device: str) -> None:
    """Trains one model on one thread."""
    import torch

    from twomem.core.errors import Diverged
    from twomem.training.runs import Hooks, run

    torch.set_num_threads(1)
    hooks = Hooks(measured=lambda line: print(plan, start, seed, json.dumps(line), flush=True))
    try:
        run(*job(plan, start, seed), device, hooks)
    except Diverged as error:
        print(plan, start, seed, error, flush=True)


def write(plan: str) -> None:
    """Writes what the runs of a plan have measured, and where the first of them was made."""
    from twomem.training.files import read_json
    from twomem.training.journal import read

    runs = [
        {"first_alphas": start, "seed": seed, "measured": read(job(plan, start, seed)[1])}
        for start in STARTS
        for seed in PLANS[plan].seeds
    ]
    where = read_json(job(plan, STARTS[0], PLANS[plan].seeds[0])[1] / "environment.json")
    where["command"] = f"python benchmarks/first_alphas.py {plan}"
    about = {**where, "plan": PLANS[plan]._asdict()}
    path = Path("benchmarks/first_alphas") / f"{plan}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n")


def main() -> None:
    """Trains all, and writes the results."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("plans", nargs="*", default=["small_retrieval", "small_copy"])
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--device", default="cpu")
    given = words.parse_args()
    if given.workers > 0:
        jobs = [
            (plan, start, seed, given.device)
            for plan in given.plans
            for seed in PLANS[plan].seeds
            for start in STARTS
        ]
        with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
            for done in [pool.submit(train, *each) for each in jobs]:
                done.result()
    for plan in given.plans:
        write(plan)


if __name__ == "__main__":
    main()
