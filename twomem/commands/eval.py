"""`twomem eval`: how good a trained model is on fresh sequences."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from twomem.commands.arguments import choose_device, values
from twomem.commands.output import document, progress, table
from twomem.core.errors import SettingsError


def eval_command(
    run_or_weights: Path,
    /,
    *,
    seed: int = 1,
    batches: int = 10,
    batch: int = 128,
    task: str | None = None,
    task_settings: Annotated[dict[str, str] | None, Parameter(name="--set")] = None,
    device: str = "cpu",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a trained model on fresh sequences.

    Args:
        run_or_weights: Folder of a run, or one with model.safetensors.
        seed: Seed of the sequences, which are apart from those of any training.
        batches: How many batches are scored; the spread is over them.
        batch: Sequences in a batch.
        task: Name of a task, if it is not the one that the model was trained on.
        task_settings: Settings of that task, such as `--set.longest 30`.
        device: Where it is computed.
        json: Print one JSON document.
    """
    from statistics import mean, stdev

    from twomem.training import weights
    from twomem.training.supervised import evaluate

    for name, value in (("batches", batches), ("batch", batch)):
        if value < 1:
            raise SettingsError(f"{name} is {value}; at least 1 is needed")
    place = choose_device(device)
    trained = weights.load(run_or_weights)
    chosen = weights.task_for(trained, task, values(task_settings))
    model = trained.model.to(place)
    stream = chosen.generator(seed, place, held_out=True)
    found: dict[str, list[float]] = {}
    with progress("evaluating", batches) as move:
        for done in range(batches):
            for name, one in evaluate(model, chosen, stream, 1, batch).items():
                found.setdefault(name, []).extend(one)
            move(done + 1)
    scores = {
        name: {
            "mean": mean(each),
            "std": stdev(each) if batches > 1 else 0.0,
            "min": min(each),
            "max": max(each),
        }
        for name, each in found.items()
    }
    if json:
        document(
            {
                "folder": str(run_or_weights),
                "task": chosen.settings(),
                "model": trained.config.settings(),
                "parameters": model.parameter_count,
                "step": trained.step,
                "seed": seed,
                "batches": batches,
                "batch": batch,
                "scores": scores,
            }
        )
        return
    rows = [[name, *each.values()] for name, each in scores.items()]
    title = f"{trained.config.name} on {chosen.name}, {batches} batches of {batch}, seed {seed}"
    table(title, ["score", "mean", "std", "min", "max"], rows)
