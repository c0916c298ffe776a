"""How commands speak: one JSON document or a table on stdout, progress and remarks on stderr."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

_LONG = 24
"""A longer cell is a sentence, which may be broken between words."""


class Move(Protocol):
    """Moves a progress bar."""

    def __call__(self, step: int, remark: str = "") -> None:
        """To `step`, with a remark behind the bar."""


def say(sentence: str) -> None:
    """Tells a person something that is no result."""
    print(sentence, file=sys.stderr, flush=True)


def warn(sentence: str) -> None:
    """Tells a person that something is not as it should be."""
    say(f"warning: {sentence}")


def document(value: Any) -> None:
    """Prints the one JSON document of a command."""
    print(json.dumps(value, indent=2, allow_nan=False))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table, numbers to the right; what is not a sentence is never broken."""
    drawn = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        numeric = all(isinstance(row[i], int | float) for row in rows)
        longest = max((len(line) for row in rows for line in show(row[i]).splitlines()), default=0)
        drawn.add_column(
            name.replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=longest <= _LONG,
        )
    for row in rows:
        drawn.add_row(*map(show, row))
    Console().print(drawn)


def show(value: Any) -> str:
    """A value for people."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


@contextmanager
def progress(what: str, total: int, start: int = 0) -> Iterator[Move]:
    """A bar on stderr; yields what moves it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task(what, total=total, completed=start, remark="")

        def move(step: int, remark: str = "") -> None:
            bar.update(shown, completed=step, remark=remark or bar.tasks[shown].fields["remark"])

        yield move
