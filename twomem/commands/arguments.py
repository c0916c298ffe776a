"""Settings from the command line: words become values, and values are checked by their settings."""

import json
from typing import Any

from twomem.core.errors import SettingsError, TwomemError


class NoDevice(TwomemError):
    """The device is not there."""


def values(words: dict[str, str] | None) -> dict[str, Any]:
    """Reads each word as JSON if it is, and as text if not: `5`, `true`, `[null, 0.5, 0]`, `adam`."""
    found = {}
    for name, word in (words or {}).items():
        try:
            found[name] = json.loads(word)
        except ValueError:
            found[name] = word
    return found


def choose_device(name: str) -> Any:
    """The device of that name, if it is there.

    Raises:
        NoDevice: it is not; the message says which are.
        SettingsError: no device has such a name.
    """
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"{name!r} is no device: use cpu, cuda or cuda:1") from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        count = torch.cuda.device_count()
        there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(count))])
        raise NoDevice(f"there is no device {name!r} here; there are: {there}") from None
    return device
