"""`twomem inspect`: a picture of what a trained model remembers while it reads."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from twomem.commands.arguments import values
from twomem.commands.output import document


def inspect_command(
    run_or_weights: Path,
    /,
    *,
    out: Path | None = None,
    seed: int = 1,
    task: str | None = None,
    task_settings: Annotated[dict[str, str] | None, Parameter(name="--set")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Draw what a trained model remembers while it reads one held-out sequence.

    Args:
        run_or_weights: Folder of a run, or one with model.safetensors.
        out: The picture (png, svg or pdf); by default memories.png in that folder.
        seed: Seed of the sequence.
        task: Name of a task, if it is not the one that the model was trained on.
        task_settings: Settings of that task, such as `--set.longest 30`.
        json: Print one JSON document: the picture's place and how far each memory moved.
    """
    from twomem.report import memories
    from twomem.training import weights

    trained = weights.load(run_or_weights)
    chosen = weights.task_for(trained, task, values(task_settings))
    seen = memories.trace(trained.model, chosen, seed)
    path = out or run_or_weights / "memories.png"
    name = trained.config.name
    memories.draw(seen, f"{name} reads {chosen.name}", path)
    if json:
        document(
            {
                "picture": str(path),
                "model": name,
                "task": chosen.settings(),
                "seed": seed,
                "steps": seen.labels,
                "changes": memories.changes(seen),
            }
        )
    else:
        print(f"drawn in {path}")
