"""The matches of all steps at once, written as operands of products, and their gradient.

They are made again where they are needed, so that they need not be kept.
"""

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


def _launch(name: str, kind: torch.dtype, normal: Tensor, *more: Tensor) -> None:
    batch, time, scores, width = normal.shape
    threads = -(-width // 32) * 32
    defines = {"QUERIES": scores // 3, "THREADS": threads, "PRECISION": NUMBERS[kind]}
    launch(name, defines, batch * time, threads, [normal, *more, batch * time, width])


def make_matches(normal: Tensor, kind: torch.dtype) -> Tensor:
    """From queries, keys and values of every step, tanh(q k): batch, time, key, query, width."""
    batch, time, scores, width = normal.shape
    found = normal.new_empty(batch, time, scores // 3, scores // 3, width, dtype=kind)
    _launch("matches", kind, normal.detach().contiguous(), found)
    return found


def match_gradient(normal: Tensor, d_matches: Tensor) -> Tensor:
    """The gradient of queries and keys; that of values is zero."""
    found = torch.empty_like(normal, memory_format=torch.contiguous_format)
    _launch(
        "matches_back",
        d_matches.dtype,
        normal.detach().contiguous(),
        d_matches.contiguous(),
        found,
    )
    return found
