"""`twomem demo`: an STM and an LSTM of its size learn a small task, and show what they learned."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from twomem.commands.output import document, progress, say, table
from twomem.core.train import Train

_TASK = ("associative_retrieval", {"pairs": 3, "embedding": 32})
_MODELS: dict[str, dict[str, Any]] = {
    "stm": {"width": 32, "queries": 1, "distilled": 32},
    # as many parameters as this STM
    "lstm": {"hidden": 86},
}
_HOW = Train(
    steps=3500,
    batch=128,
    optimizer="adam",
    learning_rate=8e-3,
    clip_value=None,
    clip_norm=5.0,
    report_every=250,
    save_every=500,
    test_batches=16,
    stop_at={"accuracy": 99.7},
)
_TESTS = {"batches": 40, "batch": 100}
"""Sequences on which the finished models are compared."""


def demo_command(
    *,
    folder: Path = Path("runs/demo"),
    seeds: int = 3,
    steps: int = _HOW.steps,
    workers: int = 2,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train an STM and an LSTM with as many parameters on a small associative retrieval.

    They read three pairs of a letter and a digit, and then give one letter's digit. Ends with a
    table, learning curves, and a picture of what the STM's two memories hold while it reads.

    Args:
        folder: Where the runs and pictures are kept; runs that are done are not trained again.
        seeds: How many seeds each model is trained with.
        steps: Most updates of a run; it stops earlier once it has learned.
        workers: Runs at a time, one thread each.
        json: Print one JSON document.
    """
    from twomem.core.config import SEEDS
    from twomem.core.errors import SettingsError

    for name, value in (("seeds", seeds), ("steps", steps), ("workers", workers)):
        if not 1 <= value < SEEDS:
            raise SettingsError(f"{name} is {value}; at least 1 is needed")
    say(f"{len(_MODELS)} models, {seeds} seeds each, {workers} runs at a time, kept in {folder}")
    jobs = _jobs(folder, seeds, steps)
    outcomes = _train(jobs, workers)
    rows = [_compared(name, jobs, outcomes) for name in _MODELS]
    pictures = _draw(folder, jobs)
    if json:
        document({"models": rows, "pictures": list(map(str, pictures))})
        return
    columns = ["model", "parameters", "accuracy % (mean)", "lowest", "updates", "seconds"]
    shown = [[row[k] for k in ("model", "parameters", *_MEANS)] for row in rows]
    table(f"associative retrieval, {_TASK[1]['pairs']} pairs, {seeds} seeds", columns, shown)
    print("pictures:", *(f"  {path}" for path in pictures), sep="\n")


_MEANS = ("accuracy", "lowest_accuracy", "updates", "seconds")


def _jobs(folder: Path, seeds: int, steps: int) -> list[tuple[Any, Path]]:
    """Every experiment and its folder, the long ones first."""
    from twomem import models, tasks
    from twomem.core.experiment import Experiment

    task = tasks.load(_TASK[0], **_TASK[1])
    how = Train(**{**dict(_HOW), "steps": steps})
    return [
        (
            Experiment(task=task, model=models.load(name, **sizes), train=how, seed=seed),
            folder / name / str(seed),
        )
        for name, sizes in _MODELS.items()
        for seed in range(seeds)
    ]


def _train(jobs: list[tuple[Any, Path]], workers: int) -> list[Any]:
    """Trains all, with one bar for all of them."""
    from twomem.training.fleet import train_all

    most = jobs[0][0].train.steps
    reached, accuracy = [0] * len(jobs), ["-"] * len(jobs)
    with progress("training", most * len(jobs)) as move:

        def hear(number: int, step: int, line: dict[str, Any]) -> None:
            reached[number] = step
            if line:
                accuracy[number] = f"{line['accuracy']:.0f}"
                if _HOW.stop_at["accuracy"] <= line["accuracy"]:
                    reached[number] = most
            move(sum(reached), f"accuracy % {' '.join(accuracy)}")

        outcomes = train_all(jobs, workers, hear)
        move(most * len(jobs))
    return outcomes


def _compared(name: str, jobs: list[tuple[Any, Path]], outcomes: list[Any]) -> dict[str, Any]:
    """One model's row: its seeds, tested on sequences that no training and no stopping has seen."""
    from statistics import mean

    from twomem.training import weights
    from twomem.training.supervised import evaluate

    found, parameters = [], 0
    for (experiment, folder), outcome in zip(jobs, outcomes, strict=True):
        if experiment.model.name != name:
            continue
        trained = weights.load(folder)
        stream = experiment.task.generator(1_000_000 + experiment.seed, held_out=True)
        scores = evaluate(
            trained.model, experiment.task, stream, _TESTS["batches"], _TESTS["batch"]
        )
        parameters = trained.model.parameter_count
        found.append((mean(scores["accuracy"]), outcome.step, outcome.seconds))
    accuracies, steps, seconds = zip(*found, strict=True)
    return {
        "model": name,
        "parameters": parameters,
        "accuracy": mean(accuracies),
        "lowest_accuracy": min(accuracies),
        "accuracies": list(accuracies),
        "updates": round(mean(steps)),
        "seconds": mean(seconds),
    }


def _draw(folder: Path, jobs: list[tuple[Any, Path]]) -> list[Path]:
    """Learning curves of all runs, and the memories of the first STM."""
    from twomem.report import curves, memories
    from twomem.training import journal, weights

    task = jobs[0][0].task
    groups: dict[str, list[Any]] = {}
    for experiment, place in jobs:
        groups.setdefault(experiment.model.name, []).append(journal.read(place))
    drawn = [folder / "learning_curves.png", folder / "memories.png"]
    title = f"{_TASK[0].replace('_', ' ')}, {_TASK[1]['pairs']} pairs"
    curves.draw(groups, "accuracy", drawn[0], title, task.chance["accuracy"])
    seen = memories.trace(weights.load(jobs[0][1]).model, task, seed=1)
    memories.draw(seen, f"what an STM remembers: {title}", drawn[1])
    return drawn
