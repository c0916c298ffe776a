"""What the kernels of single steps are compiled with: tiles, and how a block's work is cut."""

import torch

from twomem.kernels.products import NUMBERS
from twomem.kernels.stm_shared import WIDEST

_MOST_QUERIES = 8
MOST_DISTILLED = 128
"""Rows of the map that one launch takes; of more, the parts are taken one after the other."""
_ROWS = 4
"""Rows of the memory that a block has when it sums the gradient of the map."""
_SUMS = 288
"""How many columns of what is distilled, times tiles of the depth, a warp can sum."""


def fits(queries: int, width: int) -> bool:
    """Whether these kernels know the sizes."""
    return queries <= _MOST_QUERIES and width <= WIDEST


def _whole(width: int, to: int = 16) -> int:
    return -(-width // to) * to


def common(queries: int, width: int, distilled: int, kind: torch.dtype) -> dict[str, int]:
    """The sizes of all of them."""
    return {
        "D": _whole(width),
        "REAL_D": width,
        "REAL_N": queries,
        "R": _whole(distilled),
        "REAL_R": distilled,
        "PRECISION": NUMBERS[kind],
    }


def _narrow(known: dict[str, int]) -> bool:
    """Whether operands have two bytes: then there is room for twice as much."""
    return known["PRECISION"] < NUMBERS[torch.float32]


def half_depth(known: dict[str, int]) -> int:
    """Tiles of 16 in the half of the depth that a warp has."""
    return (known["D"] // 16 + 1) // 2


def map_size(known: dict[str, int]) -> int:
    """Operands of the whole map, as the kernels read it."""
    return (known["REAL_D"] + 1) // 2 * half_depth(known) * 64 * known["R"]


def loop(known: dict[str, int], pairs: int, at_once: int, room: int) -> dict[str, int]:
    """How the kernels that go through all rows of the memory share out `pairs`.

    A block is as large as leaves no more than half of a GPU idle: its warps share the map. The map
    is brought in parts, which are as large as shared memory allows.
    """
    tiles, half = 1 + _narrow(known), half_depth(known)
    cuts = [
        {"TILES": tiles, "GROUPS": groups, "SPAN": span}
        for groups in (4, 2, 1)
        if groups == 1 or 2 * -(-pairs // (2 * tiles * groups)) > at_once
        for span in range(half, 0, -1)
        if half % span == 0
    ]
    return next((each for each in cuts if back_bytes(known | each) <= room), cuts[-1])


def _rows_and_ring(f: dict[str, int]) -> tuple[int, int]:
    operand = 2 if _narrow(f) else 4
    pairs = 2 * f["TILES"] * f["GROUPS"]
    return 64 * pairs * (f["D"] + 4), 2 * f["SPAN"] * 64 * f["R"] * operand


def forward_bytes(f: dict[str, int]) -> int:
    """Shared memory of `distil`."""
    rows, ring = _rows_and_ring(f)
    return max(rows, 64 * f["GROUPS"] * f["TILES"] * f["R"]) + ring + 8 * f["TILES"] * f["GROUPS"]


def back_bytes(f: dict[str, int]) -> int:
    """Shared memory of `distil_back`, which takes no less."""
    both = f["TILES"] * f["GROUPS"]
    return sum(_rows_and_ring(f)) + 2048 * both + _whole(24 * both)


def grid(f: dict[str, int], pairs: int) -> tuple[int, int]:
    """Blocks and threads of these kernels."""
    return -(-pairs // (2 * f["TILES"] * f["GROUPS"])), 64 * f["GROUPS"]


def summed(known: dict[str, int]) -> dict[str, int]:
    """How the kernel that sums the gradient of the map cuts what is distilled, and its stages."""
    chunks = -(-known["R"] * half_depth(known) // _SUMS)
    chunk = _whole(-(-known["R"] // chunks))
    return {
        "CHUNK": chunk,
        "Y": chunk * -(-known["R"] // chunk),
        "TWOS": 4 if _narrow(known) else 2,
    }


def stages(f: dict[str, int], pairs: int) -> int:
    """Stages in which this kernel reads all pairs."""
    return -(-pairs // (2 * f["TWOS"]))


def tiles_of_two(f: dict[str, int]) -> tuple[int, int]:
    """Tiles of the gradient and of the values that two pairs have as operands."""
    return f["Y"] // 16, 2 * half_depth(f)


def summing_blocks(f: dict[str, int]) -> int:
    """Blocks of one part of the sum."""
    return -(-f["REAL_D"] // _ROWS) * (f["Y"] // f["CHUNK"])
