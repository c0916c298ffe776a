"""What the kernels of the recurrence are compiled with, and how much shared memory that takes.

The sums here follow the `Shared` of each source; a test compares them with what the compiler says.
"""

from twomem.kernels.stm_arguments import RELEASED, Sizes

PRECISIONS = {"half": 0, "bf16": 1, "fp32": 2, "tf32": 3}
"""Names of operand precisions, and how the sources call them."""
_GROUP = 8
"""Queries of a group."""
WIDEST, MOST_QUERIES, LONGEST = 128, 24, 48
"""The largest width, number of queries, and number of steps whose reads one launch holds."""
_FEW = 2
"""Steps for which weights are not brought to shared memory."""


_WAYS_BACK = [
    dict(zip(("GATE_PARTS", "KEPT", "FETCHED", "STAGED", "GATHERED"), way, strict=True))
    for way in (
        *((1, 1, 1, 1, 1), (1, 1, 1, 1, 0), (1, 1, 1, 0, 0), (2, 1, 1, 0, 0)),
        *((1, 0, 1, 1, 0), (1, 0, 1, 0, 0), (2, 0, 1, 1, 0), (2, 0, 1, 0, 0)),
        *((1, 0, 0, 1, 0), (2, 0, 0, 1, 0), (2, 0, 0, 0, 0)),
    )
]
"""What the reverse loop holds of weights and of the next step, the most first."""


def flags(
    form: int, n: Sizes, *, gated: bool, read: bool, transfer: bool, precision: str
) -> dict[str, int]:
    """The sizes and switches of both sources."""
    return {
        "D": n.wide,
        "N": n.many,
        "REAL_D": n.width,
        "REAL_N": n.queries,
        # only reads are held for all steps
        "STEPS": -(-n.time // 16) * 16 if read else 16,
        "FORM": form,
        "GATED": int(gated),
        "READ": int(read),
        "TRANSFER": int(transfer),
        "PRECISION": PRECISIONS[precision],
    }


def forward_flags(f: dict[str, int], room: int, time: int = LONGEST) -> dict[str, int]:
    """Those of the loop forward: whether it holds the transfer's weights in `room` bytes."""
    # what so few steps read again is less than what is brought
    held = {**f, "HELD": int(f["TRANSFER"] > 0 and time > _FEW)}
    return held if forward_bytes(held) <= room else {**f, "HELD": 0}


def backward_flags(f: dict[str, int], room: int) -> dict[str, int]:
    """Those of the reverse loop: the first way that fits into `room` bytes, or the smallest."""
    ways = [{**f, **way} for way in _WAYS_BACK if f["GATED"] or not way["KEPT"]]
    return next((way for way in ways if backward_bytes(way) <= room), ways[-1])


def _total(*parts: int) -> int:
    """The size of a struct whose members start at multiples of 16."""
    return sum(-(-part // 16) * 16 for part in parts)


def summed(f: dict[str, int]) -> bool:
    """Whether the reverse loop sums the gradients of cues and addresses itself."""
    return f["READ"] > 0 and f["N"] == _GROUP


def _operand(f: dict[str, int]) -> int:
    return 2 if f["PRECISION"] < PRECISIONS["fp32"] else 4


def _cues(f: dict[str, int]) -> int:
    return 3 * f["N"] if f["FORM"] == RELEASED else f["D"]


def forward_bytes(f: dict[str, int]) -> int:
    """Shared memory of `stm_forward`."""
    d, n, e, steps, warps = f["D"], f["N"], _operand(f), f["STEPS"], f["D"] // 8
    values = 24 if n == 16 else n  # noqa: PLR2004 a stride that meets every bank once
    part_read = 4 * warps * steps * 8 if f["READ"] else 1
    return _total(
        max(e * d * (d + 8), part_read if f["HELD"] else 1),
        max(e * d * (d + 8), 4 * (warps * d * 8 if f["TRANSFER"] else 1)),
        4 if f["HELD"] else part_read,
        e * (n * d * d if f["HELD"] else 1),
        4 * (2 * d if f["GATED"] else 1),
        *[4 * d] * 2,
        4 * (_cues(f) if f["READ"] else 1),
        e * d * values,
        *[4 * warps * n * 8] * 2,
        8 * warps * (1 if f["FORM"] == RELEASED else 3 * n),
        e * (steps * n if f["READ"] else 1),
        e * (steps * values if f["READ"] else 1),
        4 * (steps + 1),
    )


def backward_bytes(f: dict[str, int]) -> int:
    """Shared memory of `stm_backward`."""
    d, n, e, steps, warps = f["D"], f["N"], _operand(f), f["STEPS"], f["D"] // 8
    tiles, turned, released = (3 * n // 8 + 1) // 2, steps + 8, f["FORM"] == RELEASED
    flow = e * (d * (d + 8) if f["TRANSFER"] else 1)
    gate = e * (d * (d * 2 // f["GATE_PARTS"] + 8) if f["GATED"] else 1)
    rows = 4 * 3 * n * (d + 4)

    def if_read(size: int) -> int:
        return size if f["READ"] else 1

    return _total(
        e * (d * (d + 8) if f["GATED"] else 1),
        max(flow, gate, 4 * (warps * steps * n if summed(f) else 1)),
        e * (2 * d * d if f["KEPT"] else 1),
        e * (d * (d + 8) if f["GATHERED"] else 1),
        e * (d * d if f["FETCHED"] else 1),
        rows,
        *[rows if f["STAGED"] else 4] * 2,
        4 * (n * d if f["TRANSFER"] else 1),
        4 * if_read(steps * n),
        4 * (2 * d if f["GATED"] else 1),
        *[4 * d] * 2,
        4 * if_read(_cues(f)),
        4 * (1 if released else 3 * n),
        max(
            _total(e * n * (d + 8), *[e * (n * (d + 8) if f["TRANSFER"] else 1)] * 2), 4 * warps * d
        ),
        e * d * (16 * tiles + 8),
        e * if_read(steps * (d + 8)),
        *[e * if_read(d * turned)] * 2,
        *[e * if_read(n * turned)] * 2,
        e * (steps * n if summed(f) else 1),
        4 * (warps * steps * 8 if f["READ"] and not released else 1),
        8 * warps * (1 if released else 3 * n),
        e * if_read(steps * n),
        e * if_read(n * turned),
        4 * (steps + 1),
    )


def chunk(
    form: int, n: Sizes, *, gated: bool, read: bool, transfer: bool, precision: str, room: int
) -> int:
    """Most steps of one launch, as far as shared memory goes; 0 if not even a tile fits."""
    how = {"gated": gated, "read": read, "transfer": transfer}
    for steps in range(LONGEST, 0, -16):
        f = flags(form, n._replace(time=steps), **how, precision=precision)
        forward, backward = forward_flags(f, room), backward_flags(f, room)
        if max(forward_bytes(forward), backward_bytes(backward)) <= room:
            return steps
    return 0
