"""The tasks: a file each, whose name is the task's name."""

import sys
from typing import Any

from twomem.core import catalogue


def names() -> list[str]:
    """Names every task."""
    return catalogue.names(sys.modules[__name__])


def load(name: str, **settings: Any) -> Any:
    """Makes the settings of a task by its name.

    Raises:
        LookupError: there is no such task.
        ValueError: a setting has a wrong name or value.
    """
    return catalogue.load(sys.modules[__name__], name, **settings)
