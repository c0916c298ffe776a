"""`twomem list`: what there is, by name."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from twomem.commands.output import document, in_line, table


def list_command(
    what: Literal["models", "tasks", "tables"] = "models",
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List the models, the tasks, or the tables.

    Args:
        what: Which of them.
        json: Print one JSON document.
    """
    found = {"models": _models, "tasks": _tasks, "tables": _tables}[what]()
    if json:
        document(found)
        return
    if not found:
        print(f"there are no {what} yet")
        return
    # settings are wide, and the JSON has them
    columns = [name for name in found[0] if name != "settings"]
    table(what, columns, [[_shown(each[column]) for column in columns] for each in found])


def _shown(value: Any) -> Any:
    return in_line(value) if isinstance(value, dict) else value


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".")


def _models() -> list[dict[str, Any]]:
    """Every model at its default sizes, for 32 inputs and outputs."""
    from twomem import models

    found = []
    for name in models.names():
        config = models.load(name)
        model = config.build(32, 32)
        found.append(
            {
                "name": name,
                "summary": _summary(type(model)),
                "parameters": model.parameter_count,
                "state_size": model.state_size,
                "settings": config.settings(),
            }
        )
    return found


def _tasks() -> list[dict[str, Any]]:
    """Every task at its default sizes."""
    from twomem import tasks

    found = []
    for name in tasks.names():
        task = tasks.load(name)
        found.append(
            {
                "name": name,
                "summary": _summary(type(task)),
                "input_size": task.input_size,
                "output_size": task.output_size,
                "chance": task.chance,
                "perfect": task.perfect,
                "settings": task.settings(),
            }
        )
    return found


def _tables() -> list[dict[str, Any]]:
    """Every table of the paper that can be run."""
    from twomem import paper
    from twomem.core import catalogue

    return [{"name": name} for name in catalogue.names(paper)]
