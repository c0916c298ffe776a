"""One process trains in a folder: the system drops the lock however that process ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twomem.core.errors import RunInUse
from twomem.training.files import said_plainly


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds the folder.

    Raises:
        RunInUse: another process holds it.
    """
    path = folder / ".lock"
    with said_plainly(path):
        file = path.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunInUse(
                f"another process trains in {folder}: wait for it, or choose another folder"
            ) from None
        yield
