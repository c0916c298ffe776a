"""The models: a file each, whose name is the model's name."""

import sys
from typing import Any

from twomem.core import catalogue


def names() -> list[str]:
    """Names every model."""
    return catalogue.names(sys.modules[__name__])


def load(name: str, **settings: Any) -> Any:
    """Makes the settings of a model by its name; their `build` makes the model.

    Raises:
        LookupError: there is no such model.
        ValueError: a setting has a wrong name or value.
    """
    return catalogue.load(sys.modules[__name__], name, **settings)
