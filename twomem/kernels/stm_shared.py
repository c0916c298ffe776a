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


def flags(
    form: int, n: Sizes, *, gated: bool, read: bool, transfer: bool, precision: str, room: int
) -> dict[str, int]:
    """The sizes and switches of both sources, for `room` bytes of shared memory."""
    found = {
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
        "GATE_PARTS": 1,
    }
    if backward_bytes(found) > room:
        found["GATE_PARTS"] = 2
    return found


def _total(*parts: int) -> int:
    """The size of a struct whose members start at multiples of 16."""
    return sum(-(-part // 16) * 16 for part in parts)


def summed(f: dict[str, int]) -> bool:
    """Whether the reverse loop sums the gradients of cues and addresses itself."""
    return f["READ"] > 0 and f["N"] == _GROUP


def _operand(f: dict[str, int]) -> int:
    return 2 if f["PRECISION"] < PRECISIONS["fp32"] else 4


def forward_bytes(f: dict[str, int]) -> int:
    """Shared memory of `stm_forward`."""
    d, n, e, steps, warps = f["D"], f["N"], _operand(f), f["STEPS"], f["D"] // 8
    values = 24 if n == 16 else n  # noqa: PLR2004 a stride that meets every bank once
    return _total(
        e * d * (d + 8),
        max(e * d * (d + 8), 4 * (warps * d * 8 if f["TRANSFER"] else 1)),
        4 * (warps * steps * 8 if f["READ"] else 1),
        e * d * values,
        *[4 * warps * n * 8] * 2,
        8 * warps * (1 if f["FORM"] == RELEASED else 3 * n),
        4 * (steps * n if f["READ"] else 1),
        e * (steps * values if f["READ"] else 1),
        4 * (steps + 1),
    )


def backward_bytes(f: dict[str, int]) -> int:
    """Shared memory of `stm_backward`."""
    d, n, e, steps, warps = f["D"], f["N"], _operand(f), f["STEPS"], f["D"] // 8
    tiles, turned, released = (3 * n // 8 + 1) // 2, steps + 8, f["FORM"] == RELEASED
    flow = e * (d * (d + 8) if f["TRANSFER"] else 1)
    gate = e * (d * (d * 2 // f["GATE_PARTS"] + 8) if f["GATED"] else 1)

    def if_read(size: int) -> int:
        return size if f["READ"] else 1

    return _total(
        e * (d * (d + 8) if f["GATED"] else 1),
        max(flow, gate, 4 * (warps * steps * n if summed(f) else 1)),
        e * n * (d + 8),
        *[e * (n * (d + 8) if f["TRANSFER"] else 1)] * 2,
        e * d * (16 * tiles + 8),
        e * if_read(steps * (d + 8)),
        *[e * if_read(d * turned)] * 2,
        *[e * if_read(n * turned)] * 2,
        e * (steps * n if summed(f) else 1),
        4 * (warps * steps * 8 if f["READ"] and not released else 1),
        *[4 * warps * n * 8] * 2,
        8 * warps * (1 if released else 3 * n),
        4 * warps * d,
        4 * if_read(steps * n),
        4 * (steps + 1),
    )


def chunk(
    form: int, n: Sizes, *, gated: bool, read: bool, transfer: bool, precision: str, room: int
) -> int:
    """Most steps of one launch, as far as shared memory goes; 0 if not even a tile fits."""
    how = {"gated": gated, "read": read, "transfer": transfer}
    for steps in range(LONGEST, 0, -16):
        f = flags(form, n._replace(time=steps), **how, precision=precision, room=room)
        if max(forward_bytes(f), backward_bytes(f)) <= room:
            return steps
    return 0
