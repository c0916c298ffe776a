"""The gradient of the transfer: images of all steps meet matches, which are made where they are multiplied."""

import torch
from torch import Tensor

from twomem.kernels.products import NUMBERS
from twomem.kernels.runtime import at_once, launch
from twomem.kernels.sums import batch_sums

_PER = 4
"""Queries of a warp."""


def transfer_gradient(normal: Tensor, d_image: Tensor, kind: torch.dtype) -> Tensor:
    """The sum over batch, time and key of d_image[output] K[query, width]: output, query_width.

    Args:
        normal: Queries, keys and values of every step, in whole tiles: batch, time, score, width.
        d_image: Of what the transfer makes of the matches: batch, time, key, output.
        kind: What operands are.
    """
    batch, time, scores, width = normal.shape
    queries = scores // 3
    # as many warps as registers allow, each with the sums of all outputs
    wide = kind != torch.float32 and width <= 96  # noqa: PLR2004
    warps = width // 8 if wide else width // 16
    sizes = {"D": width, "N": queries, "PER": _PER, "WARPS": warps, "PRECISION": NUMBERS[kind]}
    groups = queries // _PER * (width // (8 * warps))
    parts = max(1, at_once(normal.device) // groups)
    found = normal.new_empty(parts, width, queries * width)
    given = [normal.detach().contiguous(), d_image.contiguous(), found, batch * time, parts]
    launch("transfer_back", sizes, groups * parts, 32 * warps, given)
    (total,) = batch_sums([found])
    assert total is not None
    return total
