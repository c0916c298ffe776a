"""The matches of all steps at once, written as operands of products."""

import torch
from torch import Tensor

from twomem.kernels.runtime import launch
from twomem.kernels.stm_shared import PRECISIONS

NUMBERS = {
    torch.float16: PRECISIONS["half"],
    torch.bfloat16: PRECISIONS["bf16"],
    torch.float32: PRECISIONS["fp32"],
}
"""What the sources call operands of each dtype."""


def make_matches(normal: Tensor, kind: torch.dtype) -> Tensor:
    """From queries, keys and values of every step, tanh(q k): batch, time, key, query, width."""
    batch, time, scores, width = normal.shape
    found = normal.new_empty(batch, time, scores // 3, scores // 3, width, dtype=kind)
    threads = -(-width // 32) * 32
    defines = {"QUERIES": scores // 3, "THREADS": threads, "PRECISION": NUMBERS[kind]}
    given = [normal.detach().contiguous(), found, batch * time, width]
    launch("matches", defines, batch * time, threads, given)
    return found
