"""`twomem list`: what there is, by name."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from twomem.commands.output import document, show, table

_NUMBERS = ("parameters", "state_size", "input_size", "output_size")


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
    rows = [_row(each) for each in found]
    table(what, list(rows[0]), [list(row.values()) for row in rows])


def _row(each: dict[str, Any]) -> dict[str, Any]:
    """What a table has room for; the JSON has all of it."""
    row = {"name": f"{each['name']}\n{each['summary']}" if "summary" in each else each["name"]}
    row |= {name: each[name] for name in _NUMBERS if name in each}
    if "chance" in each:
        row["chance"] = "\n".join(f"{name} {show(value)}" for name, value in each["chance"].items())
    return row


def _summary(kind: type) -> str:
    """The first words of what its docstring says."""
    return (kind.__doc__ or "").partition("\n")[0].partition(";")[0].rstrip(".")


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
