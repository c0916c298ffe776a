"""What a longer sequence and a larger batch cost: one size varies, the other stays.

Time should grow with the length and nothing else, so that a step costs the same in all sequences; and
a batch should cost what one sequence costs, up to as many as the GPU has multiprocessors.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from twomem.bench import device as on
from twomem.bench import suite
from twomem.bench.cases import Case, Record
from twomem.bench.shapes import Shape

TIMES = (10, 30, 100, 300, 1000, 3000, 10_000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 132, 256)
_USUAL = 100
"""The length that the longest is compared with."""
_WHO = ("implementation", "form", "precision", "direction")
"""What a line of the picture has in common."""

Line = list[tuple[int, float]]


class Ranges(NamedTuple):
    """Which lengths at which batch, and which batches at which length."""

    times: Sequence[int] = TIMES
    batches: Sequence[int] = BATCHES
    time: int = 100
    batch: int = 128

    @property
    def points(self) -> list[tuple[int, int]]:
        """Lengths and batches that are measured, each once, the cheap ones first."""
        longer = [(time, self.batch) for time in self.times]
        larger = [(self.time, batch) for batch in self.batches]
        return sorted({*longer, *larger}, key=lambda each: (each[0] * each[1], each))


def usual(device: str) -> tuple[str, ...]:
    """The implementations that are measured if none is named."""
    return ("restructured",) if device == "cpu" else ("kernel",)


def cases(ranges: Ranges, how: suite.How, **sizes: Any) -> Iterator[Case]:
    """Every implementation at every point, answered at the last step; a point of all is done first."""
    for time, batch in ranges.points:
        shape = Shape(batch, time, **sizes)
        yield from suite.cases("scaling", shape, how, None)


def over_time(records: Sequence[Record], ranges: Ranges) -> dict[str, Line]:
    """Microseconds of a step over the length of the sequence, for everything that was measured."""
    found = [each for each in records if each["batch"] == ranges.batch]
    return _lines(found, "time", "microseconds_per_step", ranges.times)


def over_batch(records: Sequence[Record], ranges: Ranges) -> dict[str, Line]:
    """Milliseconds of a pass over the number of its sequences."""
    found = [each for each in records if each["time"] == ranges.time]
    return _lines(found, "batch", "milliseconds", ranges.batches)


def _lines(
    records: Sequence[Record], along: str, measured: str, places: Sequence[int]
) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for each in records:
        if "failed" not in each and each[along] in places:
            name = " ".join(str(each[part]) for part in _WHO if each[part] is not None)
            lines.setdefault(name, []).append((each[along], each[measured]))
    return {name: sorted(line) for name, line in lines.items()}


def statements(records: Sequence[Record], ranges: Ranges, device: str) -> list[Record]:
    """How much more a step costs in the longest sequence, and as many sequences as fill the GPU."""
    longer, larger = over_time(records, ranges), over_batch(records, ranges)
    full = on.multiprocessors(device)
    found = []
    for name in {**longer, **larger}:
        steps, passes = dict(longer.get(name, [])), dict(larger.get(name, []))
        from_time = _USUAL if _USUAL in steps else min(steps, default=None)
        to_batch = full if full in passes else max(passes, default=None)
        found.append(
            {
                "what": name,
                **_ratio("step", "time", steps, from_time, max(steps, default=None)),
                **_ratio("pass", "batch", passes, min(passes, default=None), to_batch),
            }
        )
    return found


def _ratio(
    what: str, along: str, line: dict[int, float], start: int | None, stop: int | None
) -> Record:
    """How many times what is measured at `start` it is at `stop`."""
    ratio = None if start is None or stop is None else line[stop] / line[start]
    return {f"from_{along}": start, f"to_{along}": stop, f"times_a_{what}": ratio}
