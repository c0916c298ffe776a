"""What every step reads of a first memory that all sequences share, by one product."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twomem.kernels.products import NUMBERS, OPERANDS, product, range_of, rescaled, scaled
from twomem.kernels.runtime import launch
from twomem.kernels.sums import batch_sums

_THREADS = 128
Two = tuple[Tensor, Tensor]
Four = tuple[Tensor, Tensor, Tensor, Tensor]


def _launch(name: str, kind: torch.dtype, tensors: Sequence[Any]) -> None:
    """Runs a kernel whose warps have a step each; addresses and cues are the first of its tensors."""
    (batch, time, queries), width = tensors[0].shape, tensors[1].shape[2]
    defines = {"QUERIES": queries, "THREADS": _THREADS, "PRECISION": NUMBERS[kind]}
    blocks = -(-batch * time // (_THREADS // 32))
    launch(name, defines, blocks, _THREADS, [*tensors, batch * time, time, width])


@torch.library.custom_op("twomem::first_reads", mutates_args=())
def first_reads(address: Tensor, cue: Tensor, matrix: Tensor, kept: Tensor, precision: str) -> Two:
    """What is read (batch, time, outer), and as operands what was spread for it.

    Args:
        address: batch, time, query.
        cue: batch, time, inner.
        matrix: The memory: query, inner, outer.
        kept: What is left of it at each step, or nothing if it does not fade: time.
        precision: Of the operands.
    """
    kind = OPERANDS.get(precision, torch.float32)
    batch, time, queries = address.shape
    spread = address.new_empty(batch, time, queries * cue.shape[2], dtype=kind)
    address, cue = address.contiguous(), cue.contiguous()
    _launch("spread", kind, [address, cue, kept, spread])
    found = product(spread.flatten(0, 1), matrix.flatten(0, 1).to(kind))
    return found.view(*cue.shape[:2], -1), spread


@first_reads.register_fake
def _(address: Tensor, cue: Tensor, matrix: Tensor, kept: Tensor, precision: str) -> Two:
    del kept
    shape, kind = cue.shape[:2], OPERANDS.get(precision, torch.float32)
    spread = cue.new_empty(*shape, address.shape[2] * cue.shape[2], dtype=kind)
    return cue.new_empty(*shape, matrix.shape[2]), spread


@torch.library.custom_op("twomem::first_reads_backward", mutates_args=())
def first_reads_backward(
    grad: Tensor, spread: Tensor, address: Tensor, cue: Tensor, matrix: Tensor, kept: Tensor
) -> Four:
    """The gradients of all four arguments."""
    kind, (batch, time, _) = spread.dtype, address.shape
    scale = range_of(kind, grad)
    back = scaled(grad, scale, kind).flatten(0, 1)
    d_spread = back @ matrix.flatten(0, 1).to(kind).mT
    address, cue = address.contiguous(), cue.contiguous()
    d_address, d_cue = torch.empty_like(address), torch.empty_like(cue)
    d_kept = kept.new_empty(batch, time) if kept.numel() else None
    _launch("spread_back", kind, [address, cue, kept, d_spread, d_address, d_cue, d_kept])
    d_matrix = product(spread.flatten(0, 1).mT, back).view(matrix.shape)
    rescaled([d_address, d_cue, d_matrix], scale)
    (of_kept,) = batch_sums([d_kept], scale)
    return d_address, d_cue, d_matrix, kept.new_empty(0) if of_kept is None else of_kept


@first_reads_backward.register_fake
def _(
    grad: Tensor, spread: Tensor, address: Tensor, cue: Tensor, matrix: Tensor, kept: Tensor
) -> Four:
    del grad, spread
    shapes = (address.shape, cue.shape, matrix.shape, kept.shape)
    a, c, m, k = map(cue.new_empty, shapes)
    return a, c, m, k


def _saves(ctx: Any, inputs: tuple[Any, ...], output: Two) -> None:
    ctx.save_for_backward(output[1], *inputs[:4])
    ctx.set_materialize_grads(False)


def _back(ctx: Any, grad: Tensor, unused: Tensor | None) -> tuple[Tensor | None, ...]:
    del unused
    *found, d_kept = first_reads_backward(grad, *ctx.saved_tensors)
    return *found, d_kept if d_kept.numel() else None, None


first_reads.register_autograd(_back, setup_context=_saves)
