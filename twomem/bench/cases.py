"""Cases, measured one after the other: each gives a record, kept in a file as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from twomem.bench import device as on
from twomem.core.errors import Diverged, SettingsError
from twomem.training.files import read_json, to_json, write_whole

Record = dict[str, Any]


class Case(NamedTuple):
    """Something to measure."""

    head: Record
    """What tells it from all other cases; its record begins with it."""
    measure: Callable[[], Record]
    """Gives the rest of the record."""


class Kept:
    """The records of one environment, in a file if there is one for them."""

    def __init__(self, environment: Record, path: Path | None, *, resume: bool = False) -> None:
        """Goes on with the records of the file if told so.

        Raises:
            SettingsError: the file was measured elsewhere, or by other code.
        """
        self.environment, self.path = environment, path
        self.records: list[Record] = []
        self.more: Record = {}
        """What is told of all records together."""
        if resume and path is not None and path.exists():
            held = read_json(path)
            _compare(held.get("environment"), environment, path)
            self.records = held.pop("records")
            self.more = {name: value for name, value in held.items() if name != "environment"}

    def find(self, head: Record) -> Record | None:
        """The record of a case, unless it failed."""
        for record in self.records:
            if "failed" not in record and head == {name: record.get(name) for name in head}:
                return record
        return None

    def add(self, record: Record) -> None:
        """Keeps a record, in the place of one that failed."""
        self.records = [each for each in self.records if not _same(each, record)]
        self.records.append(record)
        self.write()

    def write(self) -> None:
        """Brings the file up to date, if there is one."""
        if self.path is not None:
            write_whole(self.path, to_json(self.document()))

    def document(self) -> Record:
        """All of it."""
        return {"environment": self.environment, "records": self.records, **self.more}


def measured(cases: Iterable[Case], device: str, kept: Kept) -> Iterator[Record]:
    """The records of all cases, as they are measured; those that are kept already are taken."""
    about = {name: kept.environment[name] for name in ("command", "commit")}
    for case in cases:
        record = kept.find(case.head)
        if record is None:
            record = {**case.head, **_outcome(case), **about}
            on.free(device)
            kept.add(record)
        yield record


def _outcome(case: Case) -> Record:
    """What was measured, or why nothing was: a GPU without room says so by an error, as training does."""
    try:
        return case.measure()
    except (RuntimeError, Diverged) as error:
        return {"failed": (str(error).splitlines() or [type(error).__name__])[0][:200]}


def _same(record: Record, other: Record) -> bool:
    """Whether one failed in the place of the other."""
    told = {"failed", "command", "commit"}
    return "failed" in record and all(
        other.get(name) == value for name, value in record.items() if name not in told
    )


def _compare(held: Any, environment: Record, path: Path) -> None:
    """Refuses records of another environment; the command may differ."""
    held = held if isinstance(held, dict) else {}
    names = [name for name in environment if name != "command"]
    differ = [name for name in names if held.get(name) != environment[name]]
    if differ:
        raise SettingsError(
            f"{path} holds records of another environment ({', '.join(differ)}): choose another "
            "file, or leave out --resume to start afresh"
        )
