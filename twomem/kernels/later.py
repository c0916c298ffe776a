"""Gradients of cues and addresses, where the reverse loop does not sum them: matches meet later steps."""

import torch
from torch import Tensor

from twomem.kernels.products import NUMBERS
from twomem.kernels.runtime import launch


def later(
    normal: Tensor,
    coefficient: Tensor,
    address: Tensor,
    cue: Tensor,
    kept: Tensor | None,
    kind: torch.dtype,
    *,
    of_cue: bool = True,
) -> tuple[Tensor | None, Tensor]:
    """Gradients of sum over t < u, j, s, i of address[u, s] cue[u, i] c[t, u, j] K[t, j, s, i].

    Args:
        normal: Queries, keys and values of every step, in whole tiles.
        coefficient: c, but for what is kept: batch, t, u (in whole tiles), key.
        address: Of every later step: batch, u, query.
        cue: Of every later step: batch, u, width.
        kept: What of a step's values is kept after more steps; all of it if none.
        kind: What operands are.
        of_cue: Whether the gradient of the cue is wanted.
    """
    batch, time, scores, width = normal.shape
    sizes = {
        "D": width,
        "N": scores // 3,
        "STEPS": coefficient.shape[2],
        "PRECISION": NUMBERS[kind],
    }
    to_cue = torch.empty_like(cue, memory_format=torch.contiguous_format) if of_cue else None
    to_address = torch.empty_like(address, memory_format=torch.contiguous_format)
    given = [x.detach().contiguous() for x in (normal, coefficient, address, cue)]
    arguments = [*given, kept, to_cue, to_address, time]
    launch("later", sizes, batch, 4 * width, arguments)
    return to_cue, to_address
