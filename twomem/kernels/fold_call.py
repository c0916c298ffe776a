"""Launches the kernels of the relational memory: `fold` makes it from steps, `fold_back` goes back to them.

Both take the normal queries, keys and values of every step (batch, time, score, width), and of each
step how much of its values is left; they read and write the steps from `start` to `stop` in place.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from twomem.kernels.products import OPERANDS
from twomem.kernels.runtime import at_once, launch, room
from twomem.kernels.stm_shared import PRECISIONS

_MOST_BYTES = 128 * 2**20
"""What operands of memories may take at once."""
_FEW = 4
"""Blocks that a GPU has room for, for each that there would be, where work is cut finer."""


class Steps(NamedTuple):
    """Some steps of all sequences, and at which precision they are multiplied."""

    normal: Tensor
    fades: Tensor
    start: int
    stop: int
    precision: str

    @classmethod
    def of(cls, normal: Tensor, fades: Tensor, precision: str) -> "Steps":
        """All steps."""
        normal, fades = normal.detach().contiguous(), fades.detach()
        if fades.stride(1) != 1:
            fades = fades.contiguous()
        return cls(normal, fades, 0, normal.shape[1], precision)

    @property
    def kind(self) -> torch.dtype:
        """What operands are."""
        return OPERANDS.get(self.precision, torch.float32)

    @property
    def queries(self) -> int:
        """How many there are, and as many keys."""
        return self.normal.shape[2] // 3

    def between(self, start: int, stop: int) -> "Steps":
        """Fewer of the steps."""
        return self._replace(start=start, stop=stop)

    def rows(self, part: slice) -> "Steps":
        """Fewer of the sequences."""
        return self._replace(normal=self.normal[part], fades=self.fades[part])

    def slices(self) -> Iterator[slice]:
        """Parts of the batch whose memories can be held as operands."""
        batch, _, _, width = self.normal.shape
        each = self.queries * width**2 * self.kind.itemsize
        many = max(1, _MOST_BYTES // each)
        return (slice(x, min(x + many, batch)) for x in range(0, batch, many))

    def _defines(self) -> dict[str, int]:
        width = self.normal.shape[3]
        sizes = {"D": -(-width // 16) * 16, "REAL_D": width, "REAL_N": self.queries}
        return {**sizes, "PRECISION": PRECISIONS[self.precision]}

    def fold(
        self,
        found: Tensor | None,
        operand: Tensor | None = None,
        old: Tensor | None = None,
        carry: Tensor | None = None,
    ) -> None:
        """Writes the memory (batch, query, width, depth) in float32, as operands, or both.

        Args:
            found: Where to write it in float32.
            operand: Where to write it as operands.
            old: The memory before, of all rows or one for all.
            carry: What is left of that, for all rows or one for all.
        """
        normal, defines = self.normal, self._defines()
        defines |= self._cut(tiles(defines, room(normal.device)))
        # 16 bytes are read at a time
        old = old.clone() if old is not None and old.data_ptr() % 16 else old
        held = defines["PER"] * defines["SETS"]
        passes = -(-self.queries // held)
        groups = _groups(len(normal), passes, at_once(normal.device))
        strides = [_stride(each) for each in (self.fades, old, carry)]
        where = [normal.shape[1], self.start, self.stop, *strides, groups, passes]
        threads = 32 * defines["SETS"] * defines["SPAN"]
        arguments = [normal, self.fades, old, carry, found, operand, *where]
        blocks = len(normal) * groups * (defines["D"] // 16 // defines["SPAN"])
        launch("fold", defines, blocks, threads, arguments)

    def _cut(self, found: dict[str, int]) -> dict[str, int]:
        """What a block holds; so little that many run, where sequences are few."""
        passes = -(-self.queries // (found["PER"] * found["SETS"]))
        if _FEW * len(self.normal) * passes > at_once(self.normal.device):
            return found
        many = found["TILES"] if (self.stop - self.start) * self.queries > 16 else 1  # noqa: PLR2004
        return {"PER": 1, "SETS": 1, "SPAN": 1, "TILES": many}

    def operands(self, old: Tensor | None = None, carry: Tensor | None = None) -> Tensor:
        """The memory as operands: batch, query, width, depth."""
        batch, _, _, width = self.normal.shape
        shape = (batch, self.queries, width, width)
        found = self.normal.new_empty(shape, dtype=self.kind)
        self.fold(None, found, old, carry)
        return found

    def back(
        self, d_memory: Tensor, scale: Tensor | None, d_normal: Tensor, d_fades: Tensor
    ) -> None:
        """Writes the gradients of these steps into those of all.

        Args:
            d_memory: In float32, or as operands that `scale` was applied to.
            scale: What brings it into the range of operands.
            d_normal: Of all steps.
            d_fades: Of all steps, one for each row.
        """
        # 16 bytes are read at a time
        d_memory = d_memory.clone() if d_memory.data_ptr() % 16 else d_memory
        floats = self.kind == torch.float32 or d_memory.dtype != self.kind
        defines = {**self._defines(), "FLOATS": int(floats)}
        defines |= back_tiles(defines, room(self.normal.device))
        near = 2 * defines["WARPS"] // -(-self.queries // 8)
        parts = -(-(self.stop - self.start) // near)
        where = [self.normal.shape[1], self.start, self.stop, _stride(self.fades), parts]
        arguments = [self.normal, self.fades, d_memory, scale, d_normal, d_fades, *where]
        blocks = len(self.normal) * parts
        launch("fold_back", defines, blocks, 32 * defines["WARPS"], arguments)


def _groups(batch: int, passes: int, side_by_side: int) -> int:
    """Blocks of a sequence; a block with more passes fetches what comes next meanwhile."""
    turns = [-(-batch * x // side_by_side) * -(-passes // x) for x in range(1, passes + 1)]
    return 1 + turns.index(min(turns))


def _stride(x: Tensor | None) -> int:
    """From one row of the batch to the next; none where all are one."""
    return 0 if x is None or x.shape[0] == 1 else x.stride(0)


def fold_bytes(f: dict[str, int]) -> int:
    """Shared memory of `fold`; a test compares it with what the compiler says."""
    d, width, queries, rows = f["D"], f["REAL_D"], f["REAL_N"], 16 * f["TILES"]
    short, held = f["PRECISION"] < PRECISIONS["fp32"], f["PER"] * f["SETS"]
    near = (rows + queries - 2) // queries + 1 if rows % queries else rows // queries
    left = 2 * rows * (d + 8) if short else 4 * rows * (d + 4)
    stage = 4 * (rows + near * held) * (d + 4) + left
    out = 32 * f["SPAN"] * f["SETS"] * (width if width % 4 else d + 8)
    return 2 * stage + 4 * rows * d + out + 4 * rows


def tiles(f: dict[str, int], most: int) -> dict[str, int]:
    """Queries of a warp and of a block, as far as registers go, and rows that are staged."""
    deep, short = f["D"] // 16, f["PRECISION"] < PRECISIONS["fp32"]
    per = min(4 if deep <= 4 else 2, f["REAL_N"])  # noqa: PLR2004 128 sums a lane
    warps = 12 if short and per * deep <= 12 else 8  # noqa: PLR2004 168 registers, or 255
    sets = max(1, min(warps // deep, -(-f["REAL_N"] // per)))
    tries = [{"PER": per, "SETS": sets, "SPAN": deep, "TILES": many} for many in (4, 2, 1)]
    return next((x for x in tries if fold_bytes({**f, **x}) <= most), tries[-1])


def back_bytes(f: dict[str, int]) -> int:
    """Shared memory of `fold_back`; a test compares it with what the compiler says."""
    d, warps, short = f["D"], f["WARPS"], f["PRECISION"] < PRECISIONS["fp32"]
    e, near = 2 if short else 4, 2 * warps // -(-f["REAL_N"] // 8)
    queries = 2 * warps * (d + 16) if f["REAL_N"] > 8 else 4  # noqa: PLR2004 keys of a group
    parts = (
        e * f["BUFFERS"] * d * (d + 8),
        e * (8 if short else 16 * warps * d),
        64 * warps * (d + 8),
        8 * near * (d + 8),
        8 * queries,
        8 * warps,
    )
    return sum(parts)


def back_tiles(f: dict[str, int], most: int) -> dict[str, int]:
    """Warps of a block, and for how many queries gradients of memories stand there."""
    short, groups = f["PRECISION"] < PRECISIONS["fp32"], -(-f["REAL_N"] // 8)
    narrow = f["D"] <= 96  # noqa: PLR2004 what 168 registers hold
    tries = (6 if narrow else 4, 3, 2) if short else (8, 6, 4, 3, 2, 1)
    for buffers in (2, 1):
        for warps in tries:
            found = {"WARPS": warps, "BUFFERS": buffers, "AT_ONCE": 1}
            # a block has whole steps
            if 2 * warps >= groups and back_bytes({**f, **found}) <= most:
                twice = short and 2 * back_bytes({**f, **found}) <= most - 4096
                return {**found, "AT_ONCE": 2 if twice else 1}
    raise RuntimeError(f"no block of this GPU has room for {f}")
