"""What the kernels of both STMs take, prepared by few launches."""

import functools
from typing import Any

import torch
from torch import Tensor

from twomem.ops.weights import Blend

_FEW = 8
"""Reads for which a memory is taken as it is."""


class _Blended(torch.autograd.Function):
    """Products of several tensors with one number, whose gradient takes a few launches.

    A launch for each, since one for all cuts them into pieces too large to fill a GPU.
    """

    @staticmethod
    def forward(ctx: Any, blend: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(blend, *parts)
        return tuple(blend.reshape(()) * part for part in parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        blend, *parts = ctx.saved_tensors
        to_parts = [blend.reshape(()) * grad for grad in grads]
        met = [grad.flatten() @ part.flatten() for grad, part in zip(grads, parts, strict=True)]
        return functools.reduce(torch.add, met).reshape(blend.shape), *to_parts


def blended(blend: Blend, *parts: Tensor) -> tuple[Tensor, ...]:
    """Each of `parts` times `blend`."""
    if isinstance(blend, Tensor):
        return _Blended.apply(blend, *parts)  # pyright: ignore[reportReturnType]
    return parts if blend == 1 else tuple(blend * each for each in parts)


def first_reads(
    address: Tensor | None, cue: Tensor, matrices: Tensor, kept: Tensor | None, precision: str
) -> Tensor | None:
    """What every step reads of one first memory for all rows (1, query, inner, outer), by its kernels."""
    from twomem.kernels.first_reads import first_reads as reads

    if address is None:
        return None
    fades = cue.new_empty(0) if kept is None else kept
    single = (x.float() for x in (address, cue, matrices.squeeze(0), fades))
    # a few reads are done before the memory is made operands
    few = not torch.is_grad_enabled() and cue.shape[:2].numel() <= _FEW
    return reads(*single, "fp32" if few else precision)[0]
