"""What the inputs alone decide, by one launch: for few rows, without a gradient."""

import torch
from torch import Tensor

from twomem.kernels.runtime import launch

_THREADS = 512
FEW = 64
"""Rows up to which a block for each is faster than products."""
WIDEST = 1024
"""Numbers of an input that a block holds."""
Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("twomem::hear", mutates_args=())
def hear(
    xs: Tensor,
    left: list[Tensor],
    right: list[Tensor],
    address: list[Tensor],
    gates: list[Tensor],
    starts: list[Tensor],
    project: Tensor | None,
    blend: Tensor | None,
) -> Five:
    """What two maps, the address, the gates and the cue are; batch first, then time. None are empty.

    Args:
        xs: time, batch, input.
        left: Weight and bias, as for all maps.
        right: The same of the other map.
        address: The same of the address, before its softmax; empty if nothing is read.
        gates: Weight, and up to two biases; empty without gates.
        starts: Two single numbers, added to each half of what gates hear.
        project: What maps `right` to the cue; none if the cue is `right`.
        blend: What multiplies the cue; none if there is no cue.
    """
    found = _room(xs, left, right, address, gates, starts, project, blend)
    width, queries = len(left[0]), len(address[0]) if address else 1
    sizes = {"INPUTS": xs.shape[2], "D": width, "N": queries, "CUES": found[4].shape[2] or 1}
    given = [*left, *right, *_filled(address, 2), *_filled(gates, 3), *_filled(starts, 2)]
    given = [_plain(x) for x in (xs, *given, project, blend)]
    written = [x if x.numel() else None for x in found]
    time, batch, _ = xs.shape
    defines = {**sizes, "THREADS": _THREADS, "PRECISION": 2}
    launch("hear", defines, time * batch, _THREADS, [*given, *written, time, batch])
    return found


def _plain(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().contiguous()


def _filled(some: list[Tensor], count: int) -> list[Tensor | None]:
    return [*some, *[None] * (count - len(some))]


@hear.register_fake
def _room(
    xs: Tensor,
    left: list[Tensor],
    right: list[Tensor],
    address: list[Tensor],
    gates: list[Tensor],
    starts: list[Tensor],
    project: Tensor | None,
    blend: Tensor | None,
) -> Five:
    del right, starts
    time, batch, _ = xs.shape
    width = len(left[0])
    cues = 0 if blend is None else width if project is None else len(project)
    addressed, gated = len(address[0]) if address else 0, len(gates[0]) if gates else 0
    a, b, c, d, e = (
        xs.new_empty(batch, time, each) for each in (width, width, addressed, gated, cues)
    )
    return a, b, c, d, e
