"""Measures time in turns in one process, and peak memory in a process of its own for each."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from twomem.core.errors import TwomemError


class MeasurementFailed(TwomemError):
    """The process that measures memory ended badly."""


class Timing(NamedTuple):
    """Seconds of a pass: the median, and the fastest and slowest of all."""

    median: float
    fastest: float
    slowest: float


def in_turns(
    passes: Sequence[Callable[[], None]],
    repeats: int,
    done: Callable[[], None] = lambda: None,
) -> list[Timing]:
    """Times all passes one after the other, `repeats` times, after one round that does not count.

    Turns, so that whatever else the machine does meets all of them alike.
    """
    seconds: list[list[float]] = [[] for _ in passes]
    for turn in range(repeats + 1):
        for each, found in zip(passes, seconds, strict=True):
            started = time.perf_counter()
            each()
            if turn > 0:
                found.append(time.perf_counter() - started)
            done()
    return [Timing(median(found), min(found), max(found)) for found in seconds]


def peak_bytes(what: dict[str, Any]) -> int | None:
    """Memory that a pass takes at its peak, above what its process held before; Linux tells it."""
    if sys.platform != "linux":
        return None
    command = [sys.executable, "-m", "twomem.bench.memory", json.dumps(what)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise MeasurementFailed(f"measuring the memory of {what} failed: {last}")
    return int(shown.stdout)
