"""What the recurrence of both STMs takes and gives, and how it is padded to whole tiles.

`arguments` in `twomem.ops.stm_sequence` and its released twin prepare it: everything that depends on the inputs alone, with the blends
folded in. Axes: batch, time, then `width` (rows and columns of the item memory) or `score` (queries,
keys and values, one above the other). The released form is written as it is; the paper's runs on
the transposed item memory.
"""

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import pad

RELEASED, PAPER = 0, 1


class Arguments(NamedTuple):
    """What the recurrence takes; what a form or a setting leaves out is none."""

    row: Tensor  # batch time width: what is written is row (x) column
    column: Tensor
    project: Tensor  # score width
    project_bias: Tensor  # score
    gain: Tensor  # score width
    bias: Tensor  # score width
    items: Tensor  # batch (or 1) width width
    gates: Tensor | None  # batch time two_width
    gate_weight: Tensor | None  # two_width width
    right: Tensor | None  # batch time width: the cue of a read
    cue: Tensor | None  # what meets the read: batch time score if released, else batch time width
    address: Tensor | None  # batch time query
    first_reads: Tensor | None  # batch time width
    kept: Tensor | None  # powers of what the relational memory keeps, from 0 to time
    moved: Tensor | None  # width if released; else batch (or 1) width width
    transfer: Tensor | None  # width query_width
    lengths: Tensor | None  # batch


class Sizes(NamedTuple):
    """The sizes of a call, and those it is padded to."""

    batch: int
    time: int
    width: int
    queries: int

    @classmethod
    def of(cls, given: Arguments) -> "Sizes":
        """Reads them from the shapes."""
        batch, time, width = given.row.shape
        return cls(batch, time, width, given.project.shape[0] // 3)

    @property
    def wide(self) -> int:
        """The width in whole tiles."""
        return -(-self.width // 16) * 16

    @property
    def many(self) -> int:
        """The queries in whole groups."""
        return -(-self.queries // 8) * 8


class Saved(NamedTuple):
    """What the backward pass goes by."""

    items: (
        Tensor  # batch time width width: before each step, as operands, in the order of the threads
    )
    scores: Tensor  # batch time score width: normal, without gain and bias
    rstd: Tensor  # batch time (1 or score)
    image: Tensor  # batch time query width: what the transfer makes of the matches
    met: Tensor  # batch time step query
    reads: Tensor  # batch time width


class Streams(NamedTuple):
    """What the reverse loop writes: gradients of what it names."""

    row: Tensor  # batch time width
    column: Tensor
    gates: Tensor  # batch time two_width
    scores: Tensor  # batch time width score
    image: Tensor  # batch time query width
    reads: Tensor  # batch time width
    met: Tensor  # batch time step query
    right: Tensor  # batch time width
    address: Tensor  # batch time query
    gain: Tensor  # part_batch score width: of each part of the steps
    bias: Tensor
    items: Tensor  # batch width width
    moved: Tensor  # batch width width; of the released form part_batch width
    gate_weight: Tensor | None  # two_width width
    project: Tensor  # part_batch score width


class Entries(NamedTuple):
    """What the reverse loop writes entry by entry of the memory, for a part of the steps."""

    gate: Tensor  # batch step width two_width: gradients of the gates
    heard: Tensor  # batch step width width: what the gates heard of the memory
    seen: Tensor  # batch step width width: what the scores are of


def _blocks(x: Tensor | None, axis: int, number: int, more: int) -> Tensor | None:
    """Adds `more` zeros to each of `number` blocks along an axis, which is counted from the end."""
    if x is None or more == 0:
        return x
    parts = x.unflatten(axis, (number, -1))
    return pad(parts, [0, 0] * (-axis - 1) + [0, more]).flatten(axis - 1, axis)


def padded(form: int, given: Arguments, n: Sizes) -> Arguments:
    """The arguments, their widths in whole tiles; what is added is zero, and stays so."""
    d, q = n.wide - n.width, n.many - n.queries

    def wide(x: Tensor | None, *, square: bool = False) -> Tensor | None:
        x = _blocks(x, -1, 1, d)
        return _blocks(x, -2, 1, d) if square else x

    def scores(x: Tensor | None, axis: int) -> Tensor | None:
        return _blocks(x, axis, 3, q)

    transfer = _blocks(_blocks(given.transfer, -1, n.queries, d), -1, 1, q * n.wide)
    return given._replace(
        **{name: wide(getattr(given, name)) for name in ("row", "column", "right", "first_reads")},
        **{name: scores(wide(getattr(given, name)), -2) for name in ("project", "gain", "bias")},
        project_bias=scores(given.project_bias, -1),
        items=wide(given.items, square=True),
        gates=_blocks(given.gates, -1, 2, d),
        gate_weight=_blocks(wide(given.gate_weight), -2, 2, d),
        cue=scores(given.cue, -1) if form == RELEASED else wide(given.cue),
        address=_blocks(given.address, -1, 1, q),
        moved=wide(given.moved, square=form == PAPER),
        transfer=_blocks(transfer, -2, 1, d),
    )


def unpadded(normal: Tensor, items: Tensor, n: Sizes) -> tuple[Tensor, Tensor]:
    """Normal queries, keys and values, and an item memory, at their own widths."""
    parts = normal.unflatten(-2, (3, n.many))[..., : n.queries, : n.width]
    return parts.flatten(-3, -2), items[..., : n.width, : n.width]
