"""What `twomem bench` measures case by case, and how its records are told and kept."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twomem.commands.output import document, say, table


class Wish(NamedTuple):
    """What is to be measured, as the command line was told."""

    names: Sequence[str]
    device: str
    batches: tuple[int, ...]
    times: tuple[int, ...]
    batch: int | None
    sizes: dict[str, int]
    implementations: Sequence[str]
    precisions: Sequence[str]
    directions: Sequence[str]
    repeats: int

    @property
    def how(self) -> Any:
        """What is asked of every shape alike."""
        from twomem.bench import scaling, suite

        usual = scaling.usual(self.device) if self.scales else suite.IMPLEMENTATIONS
        named = self.implementations or usual
        return suite.How(self.device, named, self.precisions, self.directions, self.repeats)

    @property
    def scales(self) -> bool:
        """Whether the cost over sizes is asked for."""
        return tuple(self.names) == ("scaling",)

    @property
    def ranges(self) -> Any:
        """The sizes over which the cost is measured."""
        from twomem.bench.scaling import Ranges

        told = {"times": self.times, "batches": self.batches, "batch": self.batch}
        told["time"] = self.sizes.get("time")
        return Ranges(**{name: value for name, value in told.items() if value})

    @property
    def others(self) -> dict[str, int]:
        """The sizes of a model."""
        return {name: value for name, value in self.sizes.items() if name != "time"}


def _cases(wish: Wish) -> Iterator[Any]:
    """Everything that is to be measured, in order."""
    from twomem.bench import scaling, suite, train_step
    from twomem.bench.device import ceilings
    from twomem.bench.shapes import BATCHES, SHAPES

    if wish.scales:
        yield from scaling.cases(wish.ranges, wish.how, **wish.others)
        return
    most = ceilings(wish.device)
    for name in wish.names:
        if name == "train_step":
            more = {} if wish.batch is None else {"batch": wish.batch}
            yield from train_step.cases(wish.how, most, **wish.others, **more)
            continue
        for batch in wish.batches or BATCHES.get(name, (SHAPES[name].batch,)):
            shape = SHAPES[name]._replace(batch=batch, **wish.sizes)
            yield from suite.cases(name, shape, wish.how, most)


def tell(wish: Wish, out: Path | None, plot: Path | None, *, resume: bool, json: bool) -> None:
    """Measures all, keeps each record at once, and prints them."""
    from twomem.bench.cases import Kept, measured
    from twomem.report import pictures
    from twomem.training.environment import describe

    if plot is not None:
        pictures.check(plot)
    kept = Kept(describe(wish.device), out, resume=resume)
    rows = []
    for record in measured(_cases(wish), wish.device, kept):
        rows.append(record)
        said = [str(record[name]) for name in (*_HEAD, "batch", "time") if record.get(name)]
        say(f"{' '.join(said)}: {record.get('failed') or record['microseconds_per_step']}")
    if wish.scales:
        kept.more["scaling"] = _scaling(rows, wish, plot)
    kept.write()
    if json:
        document(kept.document())
    else:
        _tables(rows, kept.document(), wish)


def _scaling(rows: list[dict[str, Any]], wish: Wish, plot: Path | None) -> list[dict[str, Any]]:
    """What the records say about sizes; draws them too if that is asked for."""
    from twomem.bench.scaling import over_batch, over_time, statements
    from twomem.report import scaling

    ranges = wish.ranges
    if plot is not None:
        titles = f"{ranges.batch} sequences", f"{ranges.time} steps"
        scaling.draw(over_time(rows, ranges), over_batch(rows, ranges), plot, titles)
        say(f"drawn in {plot}")
    return statements(rows, ranges, wish.device)


_HEAD = ("shape", "task", "model", "implementation", "form", "precision", "direction", "called")
_SIZES = ("batch", "time")
_FOUND = {
    "milliseconds": "ms",
    "alone_milliseconds": "alone ms",
    "times_alone": "times alone",
    "microseconds_per_step": "µs a step",
    "floor_microseconds_per_step": "floor µs",
    "peak_gib": "GiB",
}
"""What is found, and how a table says it."""


def _tables(rows: list[dict[str, Any]], whole: dict[str, Any], wish: Wish) -> None:
    """Prints shapes, whole updates, and what sizes cost."""
    device = whole["environment"]["device"]
    updates = [row for row in rows if row["shape"] == "train_step"]
    shapes = [row for row in rows if row["shape"] != "train_step"]
    if updates:
        # a model says by what it is computed, and in which form
        told = [{k: v for k, v in row.items() if k not in _HEAD[3:5]} for row in updates]
        _table(f"whole updates on {device}", told)
    if shapes:
        names = ", ".join(name for name in wish.names if name != "train_step")
        _table(f"{names} on {device}", shapes)
    for each in whole["scaling"] if wish.scales else []:
        print(_sentence(each))


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    """A column for everything that is not the same in all rows."""
    heads = [name for name in (*_HEAD, *_SIZES) if len({row.get(name) for row in rows}) > 1]
    found = [name for name in _FOUND if any(row.get(name) is not None for row in rows)]
    names = [*heads, *found]
    cells = [["-" if row.get(name) is None else row[name] for name in names] for row in rows]
    table(title, [_FOUND.get(name, name) for name in names], cells)


def _sentence(found: dict[str, Any]) -> str:
    """The cost over sizes in words."""
    parts = []
    if found["times_a_step"] is not None:
        between = f"{found['to_time']:,} steps costs {found['times_a_step']:.2f} times"
        parts.append(f"a step of {between} one of {found['from_time']:,}")
    if found["times_a_pass"] is not None:
        between = f"{found['to_batch']:,} sequences cost {found['times_a_pass']:.2f} times"
        parts.append(f"{between} what {found['from_batch']:,} cost")
    return f"{found['what']}: {'; '.join(parts) or 'nothing was measured'}"
