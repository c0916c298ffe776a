"""`twomem train`: one model on one task."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from twomem.commands.arguments import choose_device, values
from twomem.commands.output import document, progress, say, show, warn
from twomem.core.train import Train

INTERRUPTED = 130


def train_command(
    task: str,
    model: str,
    /,
    *,
    how: Train = Train(),
    task_settings: Annotated[dict[str, str] | None, Parameter(name="--task")] = None,
    model_settings: Annotated[dict[str, str] | None, Parameter(name="--model")] = None,
    seed: int = 0,
    folder: Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a model on a task, in a folder of its own.

    Stopped at any point, the same command goes on to the same numbers.

    Args:
        task: Name of the task, such as `copy`.
        model: Name of the model, such as `stm`.
        how: How it is trained.
        task_settings: Settings of the task, such as `--task.longest 5`.
        model_settings: Settings of the model, such as `--model.queries 4`.
        seed: Seed of everything random.
        folder: Where the run is kept; by default `runs/TASK/MODEL/` and a hash of all settings.
        device: Where it is trained: `cpu`, `cuda`, `cuda:1`.
        threads: Threads of the CPU; one is often fastest for small models.
        json: Print one JSON document at the end.
    """
    import torch

    from twomem import models, tasks
    from twomem.core.experiment import Experiment
    from twomem.training.runs import Hooks, run

    place = choose_device(device)
    if threads is not None:
        torch.set_num_threads(max(threads, 1))
    experiment = Experiment(
        task=tasks.load(task, **values(task_settings)),
        model=models.load(model, **values(model_settings)),
        train=how,
        seed=seed,
    )
    folder = folder or Path("runs") / task / model / experiment.short_hash()
    say(f"training {model} on {task} in {folder}")
    with progress(f"{model} on {task}", how.steps) as move:

        def measured(line: dict[str, Any]) -> None:
            scores = {k: v for k, v in line.items() if k not in ("step", "seconds")}
            move(line["step"], "  ".join(f"{k} {show(v)}" for k, v in scores.items()))

        hooks = Hooks(step=move, measured=measured, warn=warn)
        outcome = run(experiment, folder, place, hooks)
    result = {
        "folder": str(outcome.folder),
        "task": task,
        "model": model,
        "step": outcome.step,
        "done": outcome.done,
        "scores": outcome.scores,
        "seconds": round(outcome.seconds, 3),
    }
    if json:
        document(result)
    if not outcome.done:
        say(f"stopped at update {outcome.step}, which is saved: the same command goes on")
        raise SystemExit(INTERRUPTED)
    if not json:
        scores = ", ".join(f"{name} {show(value)}" for name, value in outcome.scores.items())
        print(f"{outcome.folder}: {outcome.step} updates, {scores}")
